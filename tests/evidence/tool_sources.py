"""Functions that evidence gives to TRL as tools."""

ADD = '''
def add(a: int, b: int) -> int:
    """Adds two numbers.

    Args:
        a: the first
        b: the second
    """
    return a + b
'''
