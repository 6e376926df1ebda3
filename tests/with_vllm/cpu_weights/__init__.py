"""Stands in for TRL's hand-over of weights to vLLM where there is no GPU. A stand-in: tests have it, the product not.

TRL 1.16.0 hands the trained weights to a vLLM server through NCCL, which needs CUDA; in colocate mode it calls
`load_weights` of vLLM's model, which on a CPU has given its weights away to a repacked copy. Everything else of TRL
and vLLM runs as it is. Here the same tensors, under the names that TRL gives them, go through vLLM's own
`reload_weights` instead: in colocate mode from memory, to a server through a folder of safetensors and its development
endpoint /collective_rpc, for which it has to be started with VLLM_SERVER_DEV_MODE=1 (TRL's own start does that).

environment.py writes a .pth file into .venv-vllm that imports `hook` in each process there, so that it acts in the
worker that grpo-run starts, which knows nothing of it. On another device than a CPU nothing is replaced.

GRPO_TEST_WEIGHTS=broken loses the tensors on the way: a hand-over that fails without a word. GRPO_TEST_ADAPTER breaks
the hand-over of an adapter alone, which needs no stand-in: broken_adapters has its words. GRPO_TEST_IMAGES breaks what
vLLM is shown of images, by the words of broken_images.
"""
