//! Configuration of wasmtime: many short-lived instances of one large component, each with a time limit.

use std::thread;
use std::time::Duration;

use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, OperatorCost, PoolingAllocationConfig, Result,
    VariableOperatorCost, WasmBacktraceDetails,
};

/// Interval at which running guests are checked.
const TICK: Duration = Duration::from_millis(4);

/// Stack of the guest on the thread that runs it, for deep recursion through C (`lru_cache`, `__init__`). It is only
/// address space until it is used.
const WASM_STACK: usize = 448 << 20;

/// Stack size of threads that run guests.
pub(crate) const THREAD_STACK: usize = WASM_STACK + (64 << 20);

/// After a program with more CPU time than this, its thread is replaced: its stack may have grown, and only the end of
/// a thread frees that memory. In this time about 30 MiB can be touched.
pub(crate) const STACK_REUSE_LIMIT: Duration = Duration::from_millis(5);

/// Bytes of a pooled memory that are reset by copying instead of discarding pages.
const KEEP_RESIDENT: usize = 512 << 10;

/// The engine for this many guests at once. With `fuel` it counts instructions, which makes the guest slower and its
/// limit exact.
pub(crate) fn engine(guests: usize, fuel: bool) -> Result<Engine> {
    let engine = Engine::new(&config(guests, fuel))?;
    tick(&engine)?;
    Ok(engine)
}

/// The configuration for this many guests at once, without the options of a compiler.
pub(crate) fn config(guests: usize, fuel: bool) -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .epoch_interruption(true)
        .consume_fuel(fuel)
        .async_stack_size(THREAD_STACK)
        .max_wasm_stack(WASM_STACK)
        .wasm_backtrace_max_frames(None)
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .memory_init_cow(true)
        .memory_guaranteed_dense_image_size(256 << 20)
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool(guests)));
    if fuel {
        config.operator_cost(costs());
    }
    config
}

/// Fuel per operator. Operators that only name a value generate no code and are free; bulk operators cost fuel per
/// byte.
fn costs() -> OperatorCost {
    OperatorCost {
        LocalGet: 0,
        LocalSet: 0,
        LocalTee: 0,
        I32Const: 0,
        I64Const: 0,
        F32Const: 0,
        F64Const: 0,
        variable: VariableOperatorCost {
            memory_copy_per_byte: 1,
            memory_fill_per_byte: 1,
            ..VariableOperatorCost::new()
        },
        ..OperatorCost::new()
    }
}

fn pool(guests: usize) -> PoolingAllocationConfig {
    // One more than run at once, for an instance that is being dropped.
    let slots = u32::try_from(guests).unwrap_or(u32::MAX).saturating_add(1);
    let mut pool = PoolingAllocationConfig::default();
    pool.total_component_instances(slots)
        .total_core_instances(slots.saturating_mul(64))
        .total_memories(slots.saturating_mul(2))
        .total_tables(slots.saturating_mul(4))
        .max_core_instances_per_component(64)
        .max_memories_per_component(2)
        .max_tables_per_component(4)
        .max_component_instance_size(4 << 20)
        .max_core_instance_size(4 << 20)
        .table_elements(1 << 16)
        .max_memory_size(4 << 30)
        .max_unused_warm_slots(slots)
        .linear_memory_keep_resident(KEEP_RESIDENT)
        .table_keep_resident(1 << 20)
        .pagemap_scan(Enabled::Auto);
    pool
}

/// Increments the engine's epoch from a thread until the engine is dropped.
fn tick(engine: &Engine) -> Result<()> {
    let engine = engine.weak();
    thread::Builder::new().name("evenkeel-tick".to_owned()).stack_size(64 << 10).spawn(move || {
        while let Some(engine) = engine.upgrade() {
            engine.increment_epoch();
            drop(engine);
            thread::sleep(TICK);
        }
    })?;
    Ok(())
}
