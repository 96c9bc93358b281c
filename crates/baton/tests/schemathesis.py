"""Lets generated requests reach something: ids that exist, and a request key of their own.

Only requests that are right in their shape are touched; a wrong one stays as wrong as it was made.
No request is about a key that exists.
"""

import itertools
import re

import schemathesis

# As many tasks as `./check` makes before it begins.
TASKS = 8

numbers = itertools.count()


def near(text):
    """The same kind of id, of a task that exists."""
    found = re.fullmatch(r"([TRA])-([0-9]+)(\.[0-9]+)?", str(text))
    if not found:
        return text
    kind, number = found[1], int(found[2]) % TASKS + 1
    return f"{kind}-{number}" + ("" if kind == "T" else ".1")


@schemathesis.hook
def before_call(context, case, kwargs):
    # It reads which keys there are, and would revoke its own.
    if re.fullmatch("[0-9A-Za-z]{12}", str((case.path_parameters or {}).get("key"))):
        case.path_parameters["key"] = "zzzzzzzzzzzz"
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    headers = case.headers or {}
    if "Idempotency-Key" in headers:
        headers["Idempotency-Key"] = f"request-{next(numbers)}"
    for name in ("task", "on", "run", "attempt"):
        if name in (case.path_parameters or {}):
            case.path_parameters[name] = near(case.path_parameters[name])
    if "project" in (case.path_parameters or {}):
        case.path_parameters["project"] = "shop"
    # Nobody waits here.
    if case.path.endswith(("/wait", "/claim")) and isinstance(case.body, dict):
        case.body["wait"] = "1s"
    if isinstance(case.body, dict) and "project" in case.body:
        case.body["project"] = "shop"
