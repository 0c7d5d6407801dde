//! When the guest collects cyclic garbage.
//!
//! CPython 3.14.0 collects incrementally: after every 2,000 new objects it marks reachable objects or collects garbage,
//! so that a program that keeps a million objects traverses all of them hundreds of times; and garbage among marked
//! objects may never be freed (python/cpython issues 139951 and 141890; later releases returned to generations). Here
//! collections are full ones, and one is due when the program has one and a half times as many objects as after the
//! last: the cost of collections is proportional to allocations, and garbage takes at most half as much memory as live
//! objects. As before, none is due before `gc.get_threshold()` new objects, `gc.disable()` disables them, and initial
//! objects do not count.
//!
//! The function that triggers collections is replaced. The build fails unless it and everything it depends on have the
//! expected form.

use wasm_encoder::{BlockType, Function, InstructionSink, MemArg, ValType};
use wasmparser::Operator;

use super::graph::{Defined, Graph};
use super::numbers::Numbers;
use super::{LinkError, unexpected};

/// Called by the interpreter between two bytecode instructions after enough new objects.
const TRIGGER: &str = "_Py_RunGC";
/// Runs a collection. Arguments: thread, generation, reason.
const COLLECT: &str = "_PyGC_Collect";
/// Links and counts a new object.
const LINK: &str = "_PyObject_GC_Link";

/// `struct _gc_runtime_state` of CPython 3.14 (pycore_interp_structs.h) where pointers have 32 bits, relative to its
/// first field, `enabled`.
mod field {
    /// Minimum of new objects before a collection.
    pub(super) const THRESHOLD: u32 = 16;
    /// Objects created since the last collection, minus those freed.
    pub(super) const COUNT: u32 = 20;
    /// Threshold and count of the permanent generation, which the interpreter does not use. Used here for the number of
    /// initial objects, and for the smallest number of objects since the last collection.
    pub(super) const FIRST: u32 = 64;
    pub(super) const LAST: u32 = 68;
    pub(super) const COLLECTING: u32 = 108;
    /// Number of all objects.
    pub(super) const ALL: u32 = 120;
}
/// The generation of a full collection.
const FULL: i32 = 2;
/// A collection is due when the program's objects have grown by this fraction: one half.
const GROWTH: i32 = 2;

/// A new body for a function of the linked module.
pub(super) struct Replacement {
    /// Index of the module, and of the function among those that it defines.
    pub position: (usize, usize),
    pub function: Function,
}

/// The new function that triggers collections.
pub(super) fn policy(graph: &Graph<'_>, numbers: &Numbers<'_>) -> Result<Replacement, LinkError> {
    let module = graph.modules.iter().position(|module| module.names.contains_key(TRIGGER));
    let module = module.ok_or_else(|| unexpected(format!("no function is called `{TRIGGER}`")))?;
    let trigger = graph.defined(module, TRIGGER)?;
    let collect = graph.defined(module, COLLECT)?;
    let (interpreter, enabled) = offsets(graph, module, trigger, collect)?;
    check_counting(graph, module, enabled)?;
    let collect = numbers.functions[module][collect.index as usize];
    Ok(Replacement { position: (module, trigger.body), function: body(interpreter, enabled, collect) })
}

/// Offsets of the interpreter in the thread state and of the collector's state in the interpreter, from the original
/// function.
fn offsets(graph: &Graph<'_>, module: usize, trigger: Defined, collect: Defined) -> Result<(u32, u32), LinkError> {
    let body = &graph.modules[module].bodies[trigger.body];
    let mut reader = body.get_operators_reader()?;
    let mut operators = Vec::new();
    while !reader.eof() {
        operators.push(reader.read()?);
    }
    let plain = |memarg: &wasmparser::MemArg| memarg.offset == 0;
    match operators.as_slice() {
        [
            Operator::Block { .. },
            Operator::LocalGet { local_index: 0 },
            Operator::I32Const { value: interpreter },
            Operator::I32Add,
            Operator::I32Load { memarg: first },
            Operator::I32Const { value: enabled },
            Operator::I32Add,
            Operator::I32Load { memarg: second },
            Operator::I32Eqz,
            Operator::BrIf { relative_depth: 0 },
            Operator::LocalGet { local_index: 0 },
            Operator::I32Const { value: 1 },
            Operator::I32Const { value: 0 },
            Operator::Call { function_index },
            Operator::Drop,
            Operator::End,
            Operator::End,
        ] if plain(first) && plain(second) && *function_index == collect.index => {
            Ok((interpreter.cast_unsigned(), enabled.cast_unsigned()))
        }
        other => Err(unexpected(format!("`{TRIGGER}` has another form: {other:?}"))),
    }
}

/// Checks that objects are counted in the expected fields.
fn check_counting(graph: &Graph<'_>, module: usize, enabled: u32) -> Result<(), LinkError> {
    let counts = graph.defined(module, LINK)?;
    let mut reader = graph.modules[module].bodies[counts.body].get_operators_reader()?;
    let mut added = Vec::new();
    while !reader.eof() {
        if let Operator::I32Const { value } = reader.read()? {
            added.push(value.cast_unsigned());
        }
    }
    for field in [0, field::THRESHOLD, field::COUNT, field::COLLECTING, field::ALL] {
        if !added.contains(&(enabled + field)) {
            return Err(unexpected(format!("`{LINK}` does not access the collector's field at {field}")));
        }
    }
    Ok(())
}

/// ```c
/// if (!state->enabled) return;
/// all = state->all;
/// if (!state->first) state->first = state->last = all - state->count;
/// state->count = 0;
/// if (all < state->last) state->last = all;
/// grown = all - state->last;
/// if (grown <= state->threshold || grown * GROWTH < state->last - state->first) return;
/// collect(thread, FULL, 0);
/// state->last = state->all;
/// ```
fn body(interpreter: u32, enabled: u32, collect: u32) -> Function {
    const THREAD: u32 = 0;
    const STATE: u32 = 1;
    const ALL: u32 = 2;
    const LAST: u32 = 3;
    let argument = |offset: u32| MemArg { offset: offset.into(), align: 2, memory_index: 0 };
    let mut function = Function::new([(3, ValType::I32)]);
    let code: &mut InstructionSink<'_> = &mut function.instructions();
    code.block(BlockType::Empty);
    code.local_get(THREAD).i32_load(argument(interpreter)).i32_const(enabled.cast_signed()).i32_add().local_tee(STATE);
    code.i32_load(argument(0)).i32_eqz().br_if(0);
    code.local_get(STATE).i32_load(argument(field::ALL)).local_set(ALL);

    code.local_get(STATE).i32_load(argument(field::FIRST)).i32_eqz().if_(BlockType::Empty);
    code.local_get(STATE);
    code.local_get(ALL).local_get(STATE).i32_load(argument(field::COUNT)).i32_sub().local_tee(LAST);
    code.i32_store(argument(field::FIRST));
    code.local_get(STATE).local_get(LAST).i32_store(argument(field::LAST)).end();

    code.local_get(STATE).i32_const(0).i32_store(argument(field::COUNT));
    code.local_get(ALL).local_get(STATE).i32_load(argument(field::LAST)).local_tee(LAST).i32_lt_s();
    code.if_(BlockType::Empty).local_get(ALL).local_set(LAST).end();
    code.local_get(STATE).local_get(LAST).i32_store(argument(field::LAST));

    code.local_get(ALL)
        .local_get(LAST)
        .i32_sub()
        .local_get(STATE)
        .i32_load(argument(field::THRESHOLD))
        .i32_le_s()
        .br_if(0);
    code.local_get(ALL).local_get(LAST).i32_sub().i32_const(GROWTH).i32_mul();
    code.local_get(LAST).local_get(STATE).i32_load(argument(field::FIRST)).i32_sub().i32_lt_s().br_if(0);

    code.local_get(THREAD).i32_const(FULL).i32_const(0).call(collect).drop();
    code.local_get(STATE).local_get(STATE).i32_load(argument(field::ALL)).i32_store(argument(field::LAST));
    code.end().end();
    function
}
