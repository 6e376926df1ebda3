"""The vLLM server of a run: started, watched, started again and stopped around the training."""
