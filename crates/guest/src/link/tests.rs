use wasmtime::{Engine, Instance, Linker, Module, Store};

use super::image::Image;
use super::numbers::{Numbers, Value};
use super::saturate::Saturated;
use super::{LinkError, STACK_ALLOCATED, check_mutable_globals, collector, graph, immortal, link, merge, stack};

/// Two libraries, linked as by componentize-py: the second is loaded at addresses that the first exports, fills part of
/// its table, and calls the host through a shim.
const LIBRARIES: &str = r#"
(component
  (import "host" (instance $host (export "double" (func (param "x" u32) (result u32)))))
  (core module $first
    (memory (export "memory") 1)
    (table (export "table") 4 funcref)
    (global (export "stack") (mut i32) (i32.const 0x100000))
    (global (export "stack-end") i32 (i32.const 0x100000))
    (global (export "table-base") i32 (i32.const 2))
    (global (export "address-of-five") (mut i32) (i32.const 16))
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) local.get 0)
    (data (i32.const 16) "\05\00\00\00"))
  (core module $second
    (import "env" "memory" (memory 1))
    (import "env" "table" (table 4 funcref))
    (import "env" "stack" (global $stack (mut i32)))
    (import "env" "table-base" (global $base i32))
    (import "env" "address-of-five" (global $five (mut i32)))
    (import "host" "double" (func $double (param i32) (result i32)))
    (global $one i32 (i32.const 1))
    (type $number (func (result i32)))
    (func $forty (result i32) i32.const 40)
    (elem (i32.add (global.get $base) (global.get $one)) func $forty)
    (func (export "run") (param i32) (result i32)
      (global.set $stack (i32.sub (global.get $stack) (i32.const 16)))
      (i32.add
        (i32.add (call_indirect (type $number) (i32.const 3)) (i32.load (global.get $five)))
        (call $double (local.get 0))))
    (func (export "stack-pointer") (result i32) global.get $stack))
  (core module $shim
    (type $double (func (param i32) (result i32)))
    (table (export "$imports") 1 funcref)
    (func (export "0") (param i32) (result i32)
      (call_indirect (type $double) (local.get 0) (i32.const 0))))
  (core module $filler
    (import "" "0" (func $double (param i32) (result i32)))
    (import "" "$imports" (table 1 funcref))
    (elem (i32.const 0) func $double))
  (core instance $shim (instantiate $shim))
  (core instance $first (instantiate $first))
  (core instance $second (instantiate $second
    (with "env" (instance $first))
    (with "host" (instance (export "double" (func $shim "0"))))))
  (core func $double (canon lower (func $host "double")))
  (core instance (instantiate $filler
    (with "" (instance (export "0" (func $double)) (export "$imports" (table $shim "$imports"))))))
  (func (export "run") (param "x" u32) (result u32)
    (canon lift (core func $second "run") (memory (core memory $first "memory")) (realloc (core func $first "realloc"))))
  (func (export "stack-pointer") (result u32) (canon lift (core func $second "stack-pointer"))))
"#;

/// Initial stack pointer of the linked module.
const TOP: u32 = 0x20_0000;

fn joined(component: &str) -> Result<Vec<u8>, LinkError> {
    joined_bytes(&wat::parse_str(component).expect("the test's own text"))
}

fn joined_bytes(component: &[u8]) -> Result<Vec<u8>, LinkError> {
    let graph = graph::Graph::read(component)?;
    merge::merge(&graph, &Numbers::of(&graph, TOP)?, &Image::of(&graph)?, &[], &Saturated::nothing())
}

fn instance(module: &[u8]) -> (Store<()>, Instance) {
    let engine = Engine::default();
    let mut linker = Linker::new(&engine);
    linker.func_wrap("host", "double", |x: i32| 2 * x).unwrap();
    let mut store = Store::new(&engine, ());
    let instance = linker.instantiate(&mut store, &Module::new(&engine, module).unwrap()).unwrap();
    (store, instance)
}

#[test]
fn the_linked_module_behaves_like_the_separate_modules() {
    let (mut store, instance) = instance(&joined(LIBRARIES).unwrap());
    let run = instance.get_typed_func::<i32, i32>(&mut store, "run").unwrap();
    assert_eq!(run.call(&mut store, 3).unwrap(), 40 + 5 + 6);
}

#[test]
fn immutable_globals_are_constants_and_the_stack_is_moved() {
    let module = joined(LIBRARIES).unwrap();
    let parsed = super::module::Module::read(&module).unwrap();
    assert_eq!(parsed.globals.len(), 1);
    let (mut store, instance) = instance(&module);
    let pointer = instance.get_typed_func::<(), i32>(&mut store, "stack-pointer").unwrap();
    assert_eq!(pointer.call(&mut store, ()).unwrap(), TOP.cast_signed());
}

#[test]
fn constants_are_folded_into_addresses_that_cannot_wrap_around() {
    let code = |body: &str| {
        let component = format!(
            "(component (core module $m (memory 1) (table 1 funcref) (global (mut i32) (i32.const 0x100000)) (global \
            i32 (i32.const 0x100000)) (func (export \"run\") (param i32 i32) (result i32) {body})) (core instance \
            (instantiate $m)) (alias core export 0 \"run\" (core func $run)) (func (export \"run\") (param \"x\" u32) \
            (param \"y\" u32) (result u32) (canon lift (core func $run))))"
        );
        let module = joined(&component).unwrap();
        let (mut store, instance) = instance(&module);
        let run = instance.get_typed_func::<(i32, i32), i32>(&mut store, "run").unwrap();
        let given = run.call(&mut store, (100, 7)).unwrap();
        let parsed = super::module::Module::read(&module).unwrap();
        let mut operators = parsed.bodies[0].get_operators_reader().unwrap();
        let mut added = 0;
        while !operators.eof() {
            added += usize::from(matches!(operators.read().unwrap(), wasmparser::Operator::I32Add));
        }
        (given, added)
    };
    let read = "(i32.load offset=4 (i32.add (local.get 0) (i32.const 16)))";
    let write = |value: &str| format!("(i32.store (i32.add (local.get 0) (i32.const 20)) {value})");
    assert_eq!(code(&format!("{} {read}", write("(local.get 1)"))), (7, 0));
    // The stored value may be a sum as well, which must not be folded.
    assert_eq!(code(&format!("{} {read}", write("(i32.add (local.get 1) (i32.const 3))"))), (10, 1));
    // A sum that is stored in a local is used again.
    let kept = "(i32.store (local.tee 0 (i32.add (local.get 0) (i32.const 8))) (local.get 1)) (i32.load (local.get 0))";
    assert_eq!(code(kept), (7, 1));
    // A larger address may have wrapped around.
    let far = "(i32.store offset=1 (i32.add (local.get 0) (i32.const 0xfffff)) (local.get 1)) (i32.const 1)";
    let far = far.replace("(local.get 0)", "(i32.sub (local.get 0) (i32.const 0xfffff))");
    assert_eq!(code(&far), (1, 1));
}

#[test]
fn a_guest_with_another_garbage_collector_is_refused() {
    let refused = |component: &str| {
        let component = wat::parse_str(component).unwrap();
        let graph = graph::Graph::read(&component).unwrap();
        let numbers = Numbers::of(&graph, TOP).unwrap();
        collector::policy(&graph, &numbers).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(refused(LIBRARIES).contains("no function is called `_Py_RunGC`"));
    let collects = "(func $_PyGC_Collect (param i32 i32 i32) (result i32) i32.const 0)\n    (func $_Py_RunGC";
    let other = LIBRARIES.replace("(func $forty", collects).replace("$forty", "$_Py_RunGC");
    let said = refused(&other);
    assert!(said.contains("`_Py_RunGC` has another form"), "{said}");
}

#[test]
fn a_component_with_another_structure_is_refused_with_the_reason() {
    let refused = |from: &str, to: &str| {
        assert!(LIBRARIES.contains(from));
        joined(&LIBRARIES.replace(from, to)).unwrap_err().to_string()
    };
    assert!(
        refused("(table (export \"table\") 4 funcref)", "(table (export \"table\") 4 funcref) (table 1 funcref)")
            .contains("2 tables")
    );
    assert!(
        refused("\"stack-end\") i32 (i32.const 0x100000)", "\"stack-end\") i32 (i32.const 7)").contains("1 globals")
    );
    assert!(refused("(data (i32.const 16)", "(data").contains("data that is written later"));
    assert!(
        refused(
            "(func $forty (result i32) i32.const 40)",
            "(func $forty (result i32) i32.const 40) (func $begin) (start $begin)"
        )
        .contains("start")
    );
    // Between two tests only the memory is restored.
    assert!(
        refused(
            "(func $forty (result i32) i32.const 40)",
            "(func $forty (result i32) i32.const 40) (func $change (table.set (i32.const 0) (ref.null func)))"
        )
        .contains("a table or a segment that changes")
    );
    let changing = [Value::I32(7), Value::I32(5), Value::I32(0), Value::I32(STACK_ALLOCATED)];
    assert!(check_mutable_globals(&changing, 7).is_ok());
    assert!(check_mutable_globals(&changing, 8).is_err());
    assert!(check_mutable_globals(&changing[..3], 7).is_err());
    assert!(matches!(link(b"no component"), Err(LinkError::Read(_))));
}

#[test]
fn a_truncated_component_is_refused_or_smaller() {
    let whole = wat::parse_str(LIBRARIES).unwrap();
    let module = joined_bytes(&whole).unwrap();
    let exports = |bytes: &[u8]| graph::Graph::read(bytes).unwrap().exports.len();
    for length in 0..whole.len() {
        // Truncated between two sections it is a smaller component, or one without names.
        let cut = &whole[..length];
        let harmless = joined_bytes(cut).map_or(true, |joined| joined == module || exports(cut) < exports(&whole));
        assert!(harmless, "cut after {length} bytes");
    }
}

/// A memory with these words, starting at address 1024.
fn memory(words: &[u32]) -> Image {
    let bytes: String = words.iter().flat_map(|word| word.to_le_bytes()).map(|byte| format!("\\{byte:02x}")).collect();
    let component = format!(
        "(component (core module $m (memory 1) (data (i32.const 1024) \"{bytes}\")) (core instance (instantiate $m)))"
    );
    let component = wat::parse_str(component).unwrap();
    Image::of(&graph::Graph::read(&component).unwrap()).unwrap()
}

#[test]
fn listed_objects_become_immortal_unless_they_were_freed() {
    let ty = 77;
    let other = 78;
    let immortal = 5 << 28;
    // Live, freed, in a free list, reused with another type, already immortal.
    let objects = [3, ty, 0, ty, 0x37_0000, ty, 9, other, 7 << 28, ty];
    // Many more live objects, so that three freed ones do not fail the build.
    let living = 400;
    let listed = 5 + living;
    let mut words = objects.to_vec();
    words.extend((0..living).flat_map(|_| [1, ty]));
    words.extend([0xE7E2_0004, 0xE7E2_0003, 0xE7E2_0002, 0xE7E2_0001, listed]);
    words.extend((0..listed).flat_map(|index| [1024 + 8 * index, ty]));
    let mut image = memory(&words);
    immortal::mark(&mut image).unwrap();
    let counts: Vec<u32> = (0..6).map(|index| image.word(1024 + 8 * index)).collect();
    assert_eq!(counts, [immortal, 0, 0x37_0000, 9, 7 << 28, immortal]);
    let list = 1024 + 4 * (objects.len() as u32 + 2 * living);
    assert!((0..2 * listed + 5).all(|word| image.word(list + 4 * word) == 0), "the list is removed");
}

#[test]
fn a_list_of_freed_objects_fails_the_build() {
    let mark = [0xE7E2_0004, 0xE7E2_0003, 0xE7E2_0002, 0xE7E2_0001];
    let gone = [mark.as_slice(), &[1, 8, 77]].concat();
    assert!(immortal::mark(&mut memory(&gone)).unwrap_err().to_string().contains("1 of 1"));
    assert!(immortal::mark(&mut memory(&[1])).unwrap_err().to_string().contains("not found"));
    let twice = [mark, mark].concat();
    assert!(immortal::mark(&mut memory(&twice)).unwrap_err().to_string().contains("twice"));
}

#[test]
fn the_stack_is_behind_the_memory_and_the_interpreters_bounds_are_adjusted() {
    let mut image = memory(&[1 << 20, 0x4000, 0x2000]);
    let component = wat::parse_str("(component (core module $m (memory 3)) (core instance (instantiate $m)))").unwrap();
    let mut graph = graph::Graph::read(&component).unwrap();
    let memory = graph.memory().unwrap();
    let low = 3 << 16;
    let top = low + (48 << 20);
    assert_eq!(stack::deepen(memory, &mut image).unwrap(), top);
    assert_eq!(memory.initial << 16, u64::from(top));
    let spare = low + (1 << 20);
    assert_eq!([1024, 1028, 1032].map(|at| image.word(at)), [top, spare + 0x4000, spare + 0x2000]);
}

#[test]
fn the_image_is_written_without_empty_pages() {
    let mut words = vec![0; 4096];
    words[0] = 1;
    words[4095] = 2;
    let image = memory(&words);
    let mut module = wasm_encoder::Module::new();
    module.section(&image.section());
    let module = module.finish();
    let data = super::module::Module::read(&module).unwrap().data;
    assert_eq!(data.iter().map(|data| data.data.len()).collect::<Vec<_>>(), [4096, 1024]);
    assert!(module.len() < 6000);
}
