"""Small named patches for defects of released stacks, applied only when the plan names them.

Each file is one shim. Its docstring has the defect, where it was seen, and when to remove the shim. It has at least one
of

    before_trainer(value, plan)            before the training arguments are built
    on_trainer(trainer, value, plan)       after the trainer was built, before its first step; describes its effect in
                                           a few words, "" if this model did not need it

value is the plan's value for the shim, true if it needs none.
"""
