"""Small named patches for defects of released stacks, applied only when the plan names them.

Each file is one shim. Its docstring says the defect, where it was seen, and when the shim can go. It has one or both of

    before_trainer(value, plan)            before the training arguments are built
    on_trainer(trainer, value, plan)       after the trainer was built, before its first step; returns what it did, in
                                           a few words, "" when this model did not need it

value is what the plan has for the shim, true when it needs nothing.
"""
