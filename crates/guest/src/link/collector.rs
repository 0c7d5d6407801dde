//! When the guest looks for cyclic garbage.
//!
//! CPython 3.14.0 collects in steps: after every 2,000 new objects it marks all that is reachable or collects what is not, so that a
//! program that keeps a million objects walks over all of them hundreds of times; and garbage among objects that were marked may stay
//! for ever (python/cpython issues 139951 and 141890; later releases went back to generations). Here a collection is a whole one, and
//! is due when the program has one and a half times as many objects as after the last: what collections cost is in proportion to
//! what was allocated, and what waits for them is at most half of what lives. As before nothing is due before `gc.get_threshold()`
//! new objects, `gc.disable()` ends it, and what the guest begins with does not count.
//!
//! The function that decides is replaced. Where it or what it needs is not found exactly as it was, the build ends.

use wasm_encoder::{BlockType, Function, InstructionSink, MemArg, ValType};
use wasmparser::Operator;

use super::graph::{Defined, Graph};
use super::numbers::Numbers;
use super::{LinkError, unexpected};

/// The interpreter calls it between two instructions of a program when enough objects are new.
const DECIDES: &str = "_Py_RunGC";
/// Collects: the thread, the generation, the reason.
const COLLECTS: &str = "_PyGC_Collect";
/// Links a new object, and counts it.
const COUNTS: &str = "_PyObject_GC_Link";

/// `struct _gc_runtime_state` of CPython 3.14 (pycore_interp_structs.h) where pointers have 32 bits, relative to its first field,
/// `enabled`.
mod field {
    /// New objects that make a collection worth a thought.
    pub(super) const THRESHOLD: u32 = 16;
    /// Objects made since the last one, without those that went.
    pub(super) const COUNT: u32 = 20;
    /// Threshold and count of the permanent generation, which the interpreter does not use: here, how many objects the guest began
    /// with, and how many there were after the last collection or at the least since.
    pub(super) const FIRST: u32 = 64;
    pub(super) const LAST: u32 = 68;
    pub(super) const COLLECTING: u32 = 108;
    /// All objects.
    pub(super) const ALL: u32 = 120;
}
/// The generation that is everything.
const FULL: i32 = 2;
/// A collection is due when the program's objects have grown by one part in so many.
const GROWTH: i32 = 2;

/// A function of the joined module that is another than it was.
pub(super) struct Replacement {
    /// The module's place, and the function's among those that it defines.
    pub place: (usize, usize),
    pub function: Function,
}

/// The function that decides when there is a collection.
pub(super) fn policy(graph: &Graph<'_>, numbers: &Numbers<'_>) -> Result<Replacement, LinkError> {
    let module = graph.modules.iter().position(|module| module.names.contains_key(DECIDES));
    let module = module.ok_or_else(|| unexpected(format!("no function is called `{DECIDES}`")))?;
    let (decides, collects) = (graph.defined(module, DECIDES)?, graph.defined(module, COLLECTS)?);
    let (interpreter, enabled) = offsets(graph, module, decides, collects)?;
    check_counting(graph, module, enabled)?;
    let collect = numbers.functions[module][collects.index as usize];
    Ok(Replacement { place: (module, decides.body), function: body(interpreter, enabled, collect) })
}

/// Where the thread's interpreter and the collector's state in it are, as the function says that was there.
fn offsets(graph: &Graph<'_>, module: usize, decides: Defined, collects: Defined) -> Result<(u32, u32), LinkError> {
    let body = &graph.modules[module].bodies[decides.body];
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
        ] if plain(first) && plain(second) && *function_index == collects.index => {
            Ok((interpreter.cast_unsigned(), enabled.cast_unsigned()))
        }
        other => Err(unexpected(format!("`{DECIDES}` is another: {other:?}"))),
    }
}

/// Whether objects are counted where they are expected to be.
fn check_counting(graph: &Graph<'_>, module: usize, enabled: u32) -> Result<(), LinkError> {
    let counts = graph.defined(module, COUNTS)?;
    let mut reader = graph.modules[module].bodies[counts.body].get_operators_reader()?;
    let mut added = Vec::new();
    while !reader.eof() {
        if let Operator::I32Const { value } = reader.read()? {
            added.push(value.cast_unsigned());
        }
    }
    for field in [0, field::THRESHOLD, field::COUNT, field::COLLECTING, field::ALL] {
        if !added.contains(&(enabled + field)) {
            return Err(unexpected(format!("`{COUNTS}` does not touch the collector's field at {field}")));
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
    let at = |offset: u32| MemArg { offset: offset.into(), align: 2, memory_index: 0 };
    let mut function = Function::new([(3, ValType::I32)]);
    let code: &mut InstructionSink<'_> = &mut function.instructions();
    code.block(BlockType::Empty);
    code.local_get(THREAD).i32_load(at(interpreter)).i32_const(enabled.cast_signed()).i32_add().local_tee(STATE);
    code.i32_load(at(0)).i32_eqz().br_if(0);
    code.local_get(STATE).i32_load(at(field::ALL)).local_set(ALL);

    code.local_get(STATE).i32_load(at(field::FIRST)).i32_eqz().if_(BlockType::Empty);
    code.local_get(STATE);
    code.local_get(ALL).local_get(STATE).i32_load(at(field::COUNT)).i32_sub().local_tee(LAST);
    code.i32_store(at(field::FIRST));
    code.local_get(STATE).local_get(LAST).i32_store(at(field::LAST)).end();

    code.local_get(STATE).i32_const(0).i32_store(at(field::COUNT));
    code.local_get(ALL).local_get(STATE).i32_load(at(field::LAST)).local_tee(LAST).i32_lt_s();
    code.if_(BlockType::Empty).local_get(ALL).local_set(LAST).end();
    code.local_get(STATE).local_get(LAST).i32_store(at(field::LAST));

    code.local_get(ALL).local_get(LAST).i32_sub().local_get(STATE).i32_load(at(field::THRESHOLD)).i32_le_s().br_if(0);
    code.local_get(ALL).local_get(LAST).i32_sub().i32_const(GROWTH).i32_mul();
    code.local_get(LAST).local_get(STATE).i32_load(at(field::FIRST)).i32_sub().i32_lt_s().br_if(0);

    code.local_get(THREAD).i32_const(FULL).i32_const(0).call(collect).drop();
    code.local_get(STATE).local_get(STATE).i32_load(at(field::ALL)).i32_store(at(field::LAST));
    code.end().end();
    function
}
