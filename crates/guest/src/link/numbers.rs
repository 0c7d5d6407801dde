//! The numbers that types, functions and globals of the modules have in the joined one.

use std::collections::{HashMap, HashSet};

use wasmparser::{ConstExpr, ExternalKind, FuncType, Operator, TypeRef};

use super::OLD_TOP;
use super::graph::{Graph, Origin};
use super::{LinkError, unexpected};

/// The stack pointer and a few more change. Were there many, the addresses of one library in another would be among them.
const MOST_CHANGING: usize = 8;

/// By module, by the module's own numbers.
pub(super) struct Numbers<'a> {
    pub types: Vec<Vec<u32>>,
    pub functions: Vec<Vec<u32>>,
    pub globals: Vec<Vec<Place>>,
    /// Every type, once.
    pub all_types: Vec<FuncType>,
    /// The host's functions, which have the first numbers.
    pub hosts: Vec<Host<'a>>,
    /// The globals that are left: their values at the beginning.
    pub changing: Vec<Value>,
}

/// A function that the joined module imports.
pub(super) struct Host<'a> {
    pub interface: &'a str,
    pub name: &'a str,
    /// Its type, in the joined module's numbers.
    pub ty: u32,
}

/// Where a global went.
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// No function changes it: its value is written where it was read.
    Constant(Value),
    Global(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    I32(i32),
    I64(i64),
}

impl<'a> Numbers<'a> {
    /// Numbers everything; the stack begins at another address.
    pub(super) fn of(graph: &Graph<'a>, stack_top: u32) -> Result<Self, LinkError> {
        let (types, all_types) = types(graph);
        let (functions, hosts) = functions(graph, &types)?;
        let (globals, changing) = globals(graph, stack_top)?;
        Ok(Self { types, functions, globals, all_types, hosts, changing })
    }

    /// The number of a function of the component.
    pub(super) fn component_function(&self, graph: &Graph<'_>, index: u32) -> Result<u32, LinkError> {
        match graph.function(index)? {
            Origin::Module(module, index) => Ok(self.functions[module][index as usize]),
            Origin::Host => Err(unexpected("an export that is the host's own function")),
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
    // Imports first: how many the host has decides every other number.
    let mut origins = Vec::new();
    for (place, module) in graph.modules.iter().enumerate() {
        let mut of_module = Vec::new();
        for import in module.imports_of(ExternalKind::Func) {
            let origin = graph.origin(place, import, ExternalKind::Func)?;
            let host = match (origin, import.ty) {
                (Origin::Module(..), _) => None,
                (Origin::Host, TypeRef::Func(ty)) => {
                    Some(*known.entry((import.module, import.name)).or_insert_with(|| {
                        hosts.push(Host { interface: import.module, name: import.name, ty: types[place][ty as usize] });
                        hosts.len() as u32 - 1
                    }))
                }
                (Origin::Host, _) => return Err(unexpected("a function of the host with an exact type")),
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
    // A module's own functions come after its imports.
    let own = |place: usize, index: u32| first[place] + index - origins[place].len() as u32;
    let numbers = graph.modules.iter().enumerate().map(|(place, module)| {
        let imported = origins[place].iter().map(|(origin, host)| match (origin, host) {
            (Origin::Module(module, index), _) => own(*module, *index),
            (Origin::Host, host) => host.unwrap_or_default(),
        });
        imported.chain((0..module.functions.len() as u32).map(|index| first[place] + index)).collect()
    });
    Ok((numbers.collect(), hosts))
}

/// A global's module and its number there.
type Definition = (usize, u32);

fn globals(graph: &Graph<'_>, stack_top: u32) -> Result<(Vec<Vec<Place>>, Vec<Value>), LinkError> {
    let mut definitions: Vec<Vec<Definition>> = Vec::new();
    for (place, module) in graph.modules.iter().enumerate() {
        let mut of_module = Vec::new();
        for import in module.imports_of(ExternalKind::Global) {
            match graph.origin(place, import, ExternalKind::Global)? {
                Origin::Module(module, index) => of_module.push((module, index)),
                Origin::Host => return Err(unexpected("a global of the host")),
            }
        }
        let own = of_module.len()..of_module.len() + module.globals.len();
        of_module.extend(own.map(|index| (place, index as u32)));
        definitions.push(of_module);
    }
    let changed = changed(graph, &definitions)?;
    let mut kept: HashMap<Definition, u32> = HashMap::new();
    let mut changing = Vec::new();
    let mut places = Vec::new();
    let mut stacks = HashSet::new();
    for of_module in &definitions {
        let mut of = Vec::new();
        for definition in of_module {
            let mut value = value(graph, &definitions, *definition)?;
            // The first is the stack pointer; another says where the stack was, for whoever asks.
            if definition.0 == 0 && value == Value::I32(OLD_TOP.cast_signed()) {
                stacks.insert(*definition);
                value = Value::I32(stack_top.cast_signed());
            }
            of.push(if changed.contains(definition) {
                Place::Global(*kept.entry(*definition).or_insert_with(|| {
                    changing.push(value);
                    changing.len() as u32 - 1
                }))
            } else {
                Place::Constant(value)
            });
        }
        places.push(of);
    }
    if changing.len() > MOST_CHANGING {
        return Err(unexpected(format!("{} globals that change", changing.len())));
    }
    if stacks.len() != 2 {
        return Err(unexpected(format!("{} globals of the stack's address instead of two", stacks.len())));
    }
    Ok((places, changing))
}

/// The globals that some function sets.
fn changed(graph: &Graph<'_>, definitions: &[Vec<Definition>]) -> Result<HashSet<Definition>, LinkError> {
    let mut changed = HashSet::new();
    for (place, module) in graph.modules.iter().enumerate() {
        for body in &module.bodies {
            for operator in body.get_operators_reader()? {
                if let Operator::GlobalSet { global_index } = operator? {
                    changed.insert(definitions[place][global_index as usize]);
                }
            }
        }
    }
    Ok(changed)
}

/// What a global is at the beginning.
fn value(graph: &Graph<'_>, definitions: &[Vec<Definition>], (place, index): Definition) -> Result<Value, LinkError> {
    let module = &graph.modules[place];
    let imported = definitions[place].len() - module.globals.len();
    let global = &module.globals[index as usize - imported];
    evaluate(&global.init_expr, &|index| value(graph, definitions, definitions[place][index as usize]))
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
                _ => return Err(unexpected("a sum of other things than two integers")),
            },
            Operator::End => continue,
            other => return Err(unexpected(format!("an initial value with the operator {other:?}"))),
        };
        stack.push(value);
    }
    stack.pop().ok_or_else(|| unexpected("an initial value that is empty"))
}
