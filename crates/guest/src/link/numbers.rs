//! Indices of the modules' types, functions and globals in the linked module.

use std::collections::{HashMap, HashSet};

use wasmparser::{ConstExpr, ExternalKind, FuncType, Operator, TypeRef};

use super::OLD_TOP;
use super::graph::{Graph, ItemOrigin};
use super::{LinkError, unexpected};

/// Most mutable globals: the stack pointers and a few more. If there are many, addresses of other libraries are among
/// them.
const MAX_MUTABLE_GLOBALS: usize = 8;

/// Indices in the linked module, by module and by the module's own index.
pub(super) struct Numbers<'a> {
    pub types: Vec<Vec<u32>>,
    pub functions: Vec<Vec<u32>>,
    pub globals: Vec<Vec<ResolvedGlobal>>,
    /// The types of the linked module.
    pub all_types: Vec<FuncType>,
    /// The host's functions, which have the first function indices.
    pub hosts: Vec<Host<'a>>,
    /// Initial values of the mutable globals.
    pub changing: Vec<Value>,
}

/// A function that the linked module imports.
pub(super) struct Host<'a> {
    pub interface: &'a str,
    pub name: &'a str,
    /// Index of its type in the linked module.
    pub ty: u32,
}

/// A global in the linked module.
#[derive(Clone, Copy)]
pub(super) enum ResolvedGlobal {
    /// No function sets it: its value replaces every access.
    Constant(Value),
    Mutable(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    I32(i32),
    I64(i64),
}

impl<'a> Numbers<'a> {
    /// Assigns all indices, with a new initial stack pointer.
    pub(super) fn of(graph: &Graph<'a>, stack_top: u32) -> Result<Self, LinkError> {
        let (types, all_types) = types(graph);
        let (functions, hosts) = functions(graph, &types)?;
        let (globals, changing) = globals(graph, stack_top)?;
        Ok(Self { types, functions, globals, all_types, hosts, changing })
    }

    /// The index of a core function of the component.
    pub(super) fn component_function(&self, graph: &Graph<'_>, index: u32) -> Result<u32, LinkError> {
        match graph.function(index)? {
            ItemOrigin::Module(module, index) => Ok(self.functions[module][index as usize]),
            ItemOrigin::Host => Err(unexpected("an export that is a function of the host")),
        }
    }
}

fn types(graph: &Graph<'_>) -> (Vec<Vec<u32>>, Vec<FuncType>) {
    let mut known: HashMap<FuncType, u32> = HashMap::new();
    let mut all = Vec::new();
    let mut number = |ty: &FuncType| {
        *known.entry(ty.clone()).or_insert_with(|| {
            all.push(ty.clone());
            all.len() as u32 - 1
        })
    };
    let numbers = graph.modules.iter().map(|module| module.types.iter().map(&mut number).collect()).collect();
    (numbers, all)
}

type Functions<'a> = (Vec<Vec<u32>>, Vec<Host<'a>>);

fn functions<'a>(graph: &Graph<'a>, types: &[Vec<u32>]) -> Result<Functions<'a>, LinkError> {
    let mut hosts: Vec<Host<'a>> = Vec::new();
    let mut known = HashMap::new();
    // Imports first: their number determines all other indices.
    let mut origins = Vec::new();
    for (position, module) in graph.modules.iter().enumerate() {
        let mut of_module = Vec::new();
        for import in module.imports_of(ExternalKind::Func) {
            let origin = graph.origin(position, import, ExternalKind::Func)?;
            let host = match (origin, import.ty) {
                (ItemOrigin::Module(..), _) => None,
                (ItemOrigin::Host, TypeRef::Func(ty)) => {
                    Some(*known.entry((import.module, import.name)).or_insert_with(|| {
                        hosts.push(Host {
                            interface: import.module,
                            name: import.name,
                            ty: types[position][ty as usize],
                        });
                        hosts.len() as u32 - 1
                    }))
                }
                (ItemOrigin::Host, _) => return Err(unexpected("a function of the host with an exact type")),
            };
            of_module.push((origin, host));
        }
        origins.push(of_module);
    }
    let mut next = hosts.len() as u32;
    let mut first = Vec::new();
    for module in &graph.modules {
        first.push(next);
        next += module.functions.len() as u32;
    }
    // A module's own functions follow its imports.
    let own = |module: usize, index: u32| first[module] + index - origins[module].len() as u32;
    let numbers = graph.modules.iter().enumerate().map(|(position, module)| {
        let imported = origins[position].iter().map(|(origin, host)| match (origin, host) {
            (ItemOrigin::Module(module, index), _) => own(*module, *index),
            (ItemOrigin::Host, host) => host.unwrap_or_default(),
        });
        imported.chain((0..module.functions.len() as u32).map(|index| first[position] + index)).collect()
    });
    Ok((numbers.collect(), hosts))
}

/// The module that defines a global, and its index there.
type Definition = (usize, u32);

fn globals(graph: &Graph<'_>, stack_top: u32) -> Result<(Vec<Vec<ResolvedGlobal>>, Vec<Value>), LinkError> {
    let mut definitions: Vec<Vec<Definition>> = Vec::new();
    for (position, module) in graph.modules.iter().enumerate() {
        let mut of_module = Vec::new();
        for import in module.imports_of(ExternalKind::Global) {
            match graph.origin(position, import, ExternalKind::Global)? {
                ItemOrigin::Module(module, index) => of_module.push((module, index)),
                ItemOrigin::Host => return Err(unexpected("a global of the host")),
            }
        }
        let own = of_module.len()..of_module.len() + module.globals.len();
        of_module.extend(own.map(|index| (position, index as u32)));
        definitions.push(of_module);
    }
    let changed = changed(graph, &definitions)?;
    let mut kept: HashMap<Definition, u32> = HashMap::new();
    let mut changing = Vec::new();
    let mut resolved = Vec::new();
    let mut stacks = HashSet::new();
    for of_module in &definitions {
        let mut of = Vec::new();
        for definition in of_module {
            let mut value = value(graph, &definitions, *definition)?;
            // One is the stack pointer; the other one exports the initial value.
            if definition.0 == 0 && value == Value::I32(OLD_TOP.cast_signed()) {
                stacks.insert(*definition);
                value = Value::I32(stack_top.cast_signed());
            }
            of.push(if changed.contains(definition) {
                ResolvedGlobal::Mutable(*kept.entry(*definition).or_insert_with(|| {
                    changing.push(value);
                    changing.len() as u32 - 1
                }))
            } else {
                ResolvedGlobal::Constant(value)
            });
        }
        resolved.push(of);
    }
    if changing.len() > MAX_MUTABLE_GLOBALS {
        return Err(unexpected(format!("{} globals that change", changing.len())));
    }
    if stacks.len() != 2 {
        return Err(unexpected(format!("{} globals of the stack's address instead of two", stacks.len())));
    }
    Ok((resolved, changing))
}

/// The globals that some function sets.
fn changed(graph: &Graph<'_>, definitions: &[Vec<Definition>]) -> Result<HashSet<Definition>, LinkError> {
    let mut changed = HashSet::new();
    for (position, module) in graph.modules.iter().enumerate() {
        for body in &module.bodies {
            for operator in body.get_operators_reader()? {
                if let Operator::GlobalSet { global_index } = operator? {
                    changed.insert(definitions[position][global_index as usize]);
                }
            }
        }
    }
    Ok(changed)
}

/// The initial value of a global.
fn value(
    graph: &Graph<'_>,
    definitions: &[Vec<Definition>],
    (position, index): Definition,
) -> Result<Value, LinkError> {
    let module = &graph.modules[position];
    let imported = definitions[position].len() - module.globals.len();
    let global = &module.globals[index as usize - imported];
    evaluate(&global.init_expr, &|index| value(graph, definitions, definitions[position][index as usize]))
}

/// The value of an initial expression.
pub(super) fn evaluate(
    expression: &ConstExpr<'_>,
    global: &dyn Fn(u32) -> Result<Value, LinkError>,
) -> Result<Value, LinkError> {
    let mut stack = Vec::new();
    for operator in expression.get_operators_reader() {
        let value = match operator? {
            Operator::I32Const { value } => Value::I32(value),
            Operator::I64Const { value } => Value::I64(value),
            Operator::GlobalGet { global_index } => global(global_index)?,
            Operator::I32Add => match (stack.pop(), stack.pop()) {
                (Some(Value::I32(right)), Some(Value::I32(left))) => Value::I32(left.wrapping_add(right)),
                _ => return Err(unexpected("an addition of anything but two integers")),
            },
            Operator::End => continue,
            other => return Err(unexpected(format!("an initial value with the operator {other:?}"))),
        };
        stack.push(value);
    }
    stack.pop().ok_or_else(|| unexpected("an initial value that is empty"))
}
