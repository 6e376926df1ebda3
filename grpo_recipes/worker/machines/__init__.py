"""The machines of a run, which meet before anything heavy is imported."""
