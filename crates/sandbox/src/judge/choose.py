"""Chooses the program among the blocks of a completion, which are parsed and not run. Prints the index of the first that is a whole program, after
those of earlier blocks whose definitions it lacks."""

import ast
import builtins
import json
import re
import sys

_KNOWN = {*dir(builtins), "__name__", "__file__", "__doc__", "__builtins__"}
_READS = {"input", "open", "stdin", "__stdin__", "fileinput"}
# A line that only a program has, however broken it is.
_CODE = re.compile(r"^[ \t]*(?:def|class|import|from|for|while|if|return|with|try|print)\b|^[ \t]*\w+[ \t]*[+\-*/]?=[^=]", re.MULTILINE)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def is_whole(text, is_python, function):
    try:
        tree = ast.parse(text)
    except Exception:
        # A program with a mistake is still the answer, if it was meant to be one.
        return is_python and bool(re.search(rf"\b{re.escape(function)}\b", text) if function else _CODE.search(text))
    if function:
        return any(_defines(statement, function) for statement in tree.body)
    return _does_something(tree) and not _is_fragment(tree)


def _defines(statement, name):
    """Whether a statement of a module or class gives a meaning to the name, other than a function that is still to be written."""
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return statement.name == name and not _is_stub(statement.body)
        case ast.ClassDef():
            return statement.name == name or any(_defines(part, name) for part in statement.body)
        case ast.Import() | ast.ImportFrom():
            return any((alias.asname or alias.name) in (name, "*") for alias in statement.names)
    parts = [part for part in ast.iter_child_nodes(statement) if isinstance(part, ast.stmt | ast.ExceptHandler)]
    if any(_defines(part, name) for part in parts):
        return True
    names = (part for part in ast.walk(statement) if isinstance(part, ast.Name))
    return any(part.id == name and isinstance(part.ctx, ast.Store) for part in names)


def _is_stub(body):
    return all(isinstance(part, ast.Pass) or isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant) for part in body)


def _does_something(tree):
    """Whether running the module can have an effect beyond definitions."""
    return any(_acts(statement) for statement in tree.body)


def _acts(statement):
    match statement:
        case ast.Expr():
            return not isinstance(statement.value, ast.Constant)
        case ast.Pass() | ast.Import() | ast.ImportFrom():
            return False
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return bool(statement.decorator_list)
        case ast.ClassDef():
            return bool(statement.decorator_list) or any(_acts(part) for part in statement.body)
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
            return statement.value is not None and any(isinstance(part, ast.Call) for part in ast.walk(statement.value))
    return True


def _names(tree):
    """The names that a module gives a meaning to, and those that it uses; `None` for the former where an import may give any."""
    bound, used = set(), set()
    for node in ast.walk(tree):
        match node:
            case ast.Name():
                (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
            case ast.arg():
                bound.add(node.arg)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                bound.add(node.name)
            case ast.alias():
                if node.name == "*":
                    return None, used
                bound.add((node.asname or node.name).partition(".")[0])
            case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar():
                bound.add(node.name)
            case ast.MatchMapping():
                bound.add(node.rest)
            case ast.TypeVar():
                bound.add(node.name)
    return bound, used


def _reads(tree):
    for node in ast.walk(tree):
        match node:
            case ast.alias() if (node.asname or node.name).partition(".")[0] in _READS:
                return True
            case ast.Attribute() if node.attr in _READS:
                return True
            case ast.Name() if isinstance(node.ctx, ast.Load) and node.id in _READS:
                return True
    return False


def _lacks(tree):
    bound, used = _names(tree)
    return set() if bound is None else used - bound - _KNOWN


def _is_fragment(tree):
    """Whether the module continues another one: it reads nothing and uses names that it does not define."""
    return not _reads(tree) and bool(_lacks(tree))


def _top_level(tree):
    """The names that a module of definitions gives a meaning to."""
    found = set()
    for statement in tree.body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                if not _is_stub(statement.body):
                    found.add(statement.name)
            case ast.Import() | ast.ImportFrom():
                found |= {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
            case ast.Assign():
                found |= {target.id for target in statement.targets if isinstance(target, ast.Name)}
    return found


def _with_definitions(blocks, chosen):
    """The indices of a block and of the earlier ones that define what it lacks, in the order of the text."""
    trees = {}
    for index in range(chosen, len(blocks)):
        try:
            trees[index] = ast.parse(blocks[index]["text"])
        except Exception:
            continue
    if chosen not in trees:
        return [chosen]
    found, missing = [chosen], _lacks(trees[chosen])
    # Earlier blocks have higher indices; the nearest one that defines a name counts.
    for index in range(chosen + 1, len(blocks)):
        if index in trees and not _does_something(trees[index]) and missing & _top_level(trees[index]):
            found.append(index)
            missing = (missing - _top_level(trees[index])) | _lacks(trees[index])
    return found[::-1]


given = json.load(sys.stdin)
whole = (index for index, block in enumerate(given["blocks"]) if is_whole(block["text"], block["is_python"], given["function"]))
print(*_with_definitions(given["blocks"], next(whole, 0)))
