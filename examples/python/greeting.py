"""Greets people."""


def greeting(name: str) -> str:
    """A greeting for somebody."""
    return f"Hello, {name}!"
