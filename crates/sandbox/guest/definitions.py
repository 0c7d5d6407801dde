"""Finds the definitions at the beginning of a program: imports of loaded modules, functions, plain classes, and constants.

They neither depend on a test nor have visible effects. They run once, and every test continues after them.
"""

import __future__

import ast
import re
import sys
from builtins import compile as _compile

# A program that inspects its own code or its frames would notice that it was split.
_INSPECTS = re.compile(r"inspect|_getframe|currentframe|traceback|\bf_\w|tb_frame|[gca][ir]_frame|__code__|settrace|setprofile|monitoring|\bgc\b")
_DECORATORS = {"property", "staticmethod", "classmethod"}


_FUTURE = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names if name != "nested_scopes")
# Marks in the set of known names that `sys` is the module.
_SYS = "import sys"


def split(source: bytes, file: str):
    """The code of both parts. The first is None if there are no definitions; the result is None if the program might notice."""
    if _INSPECTS.search(source.decode("utf-8", "replace")):
        return None
    tree = _compile(source, file, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    known: set[str] = set()
    count = 0
    if not _is_annotated(tree.body):
        while count < len(tree.body) and _defines(tree.body[count], known):
            count += 1
    if not count:
        return None, None
    first = _code(tree.body[:count], file, 0)
    # Future imports apply to both parts.
    return first, _code(tree.body[count:], file, first.co_flags & _FUTURE)


def _code(body: list, file: str, flags: int):
    return _compile(ast.Module(body, []), file, "exec", flags, dont_inherit=True)


def _is_annotated(body: list) -> bool:
    """Whether module variables have annotations: these are compiled to one function at the beginning of the module."""
    todo = list(body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.AnnAssign):
            return True
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.expr)):
            todo += ast.iter_child_nodes(node)
    return False


def _defines(node: ast.stmt, known: set[str]) -> bool:
    match node:
        case ast.Expr(ast.Constant()) | ast.Pass():
            return True
        case ast.Import():
            return all(_imports(name.name, name.asname, known) for name in node.names)
        case ast.ImportFrom(level=0):
            return _imports_from(node, known)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            _bind(node.name, known)
            return not node.decorator_list and not node.type_params and _is_plain(node.args, known)
        case ast.ClassDef():
            return _is_class(node, known)
        case ast.Assign(targets=[ast.Name(name)]) if _is_value(node.value, known):
            _bind(name, known)
            return True
        case ast.Expr(ast.Call(ast.Attribute(ast.Name("sys"), "setrecursionlimit"), [limit], [])):
            return _SYS in known and _is_number(limit)
    return False


def _bind(name: str, known: set[str]) -> None:
    known.add(name)
    if name == "sys":
        known.discard(_SYS)


def _imports(name: str, alias: str | None, known: set[str]) -> bool:
    parts = name.split(".")
    if any(sys.modules.get(".".join(parts[: end + 1])) is None for end in range(len(parts))):
        return False
    _bind(alias or parts[0], known)
    if name == "sys" and not alias:
        known.add(_SYS)
    return True


def _imports_from(node: ast.ImportFrom, known: set[str]) -> bool:
    module = sys.modules.get(node.module)
    names = [(name.name, name.asname or name.name) for name in node.names]
    if module is None:
        return False
    if names == [("*", "*")]:
        names = [(name, name) for name in getattr(module, "__all__", None) or module.__dict__ if name[0] != "_"]
    # A missing name may call the module's `__getattr__` or import a submodule.
    if any(name not in module.__dict__ for name, _ in names):
        return False
    for _, name in names:
        _bind(name, known)
    return True


def _is_plain(arguments: ast.arguments, known: set[str]) -> bool:
    """Whether defining a function with these arguments only evaluates plain defaults."""
    defaults = [*arguments.defaults, *(default for default in arguments.kw_defaults if default is not None)]
    return all(_is_value(default, known) for default in defaults)


def _is_class(node: ast.ClassDef, known: set[str]) -> bool:
    bases = all(isinstance(base, ast.Name) and base.id == "object" and "object" not in known for base in node.bases)
    if not bases or node.keywords or node.decorator_list or node.type_params:
        return False
    for part in node.body:
        match part:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                plain = all(
                    isinstance(decorator, ast.Name) and decorator.id in _DECORATORS and decorator.id not in known
                    for decorator in part.decorator_list
                )
                if not plain or part.type_params or not _is_plain(part.args, known):
                    return False
            case ast.Assign(targets=[ast.Name()]):
                if not _is_constant(part.value):
                    return False
            case ast.Expr(ast.Constant()) | ast.Pass():
                pass
            case _:
                return False
    _bind(node.name, known)
    return True


def _is_value(node: ast.expr, known: set[str]) -> bool:
    if isinstance(node, ast.Lambda):
        return _is_plain(node.args, known)
    if isinstance(node, (ast.Name, ast.Attribute)):
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in known
    return _is_constant(node)


def _is_constant(node: ast.expr) -> bool:
    match node:
        case ast.Constant() | ast.Dict(keys=[]):
            return True
        case ast.Tuple(parts) | ast.List(parts):
            return all(map(_is_constant, parts))
    return _is_number(node)


def _is_number(node: ast.expr) -> bool:
    """Whether this is a number that takes no time to compute."""
    match node:
        case ast.Constant(int() | float()):
            return True
        case ast.UnaryOp(ast.USub() | ast.UAdd(), part):
            return _is_number(part)
        case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult(), right):
            return _is_number(left) and _is_number(right)
        case ast.BinOp(ast.Constant(int()), ast.Pow(), ast.Constant(int(power))):
            return power <= 100
    return False
