//! Writes the linked module.

use wasm_encoder::reencode::{self, Reencode};
use wasm_encoder::{
    CodeSection, ConstExpr, ElementSection, EntityType, ExportKind, ExportSection, Function, FunctionSection,
    GlobalSection, GlobalType, ImportSection, Instruction, MemorySection, TableSection, TypeSection, ValType,
};
use wasmparser::{ElementItems, ElementKind, FunctionBody, Operator};

use super::addresses::Folded;
use super::collector::Replacement;
use super::graph::Graph;
use super::image::Image;
use super::module::Module;
use super::numbers::{Numbers, ResolvedGlobal, Value, evaluate};
use super::saturate::Saturated;
use super::{LinkError, unexpected};

/// The linked module, with imports and exports named as the component encoder expects. `image` is its initial memory,
/// `replaced` are functions with a new body, and `saturated` determines which calls are redirected.
pub(super) fn merge(
    graph: &Graph<'_>,
    numbers: &Numbers<'_>,
    image: &Image,
    replaced: &[Replacement],
    saturated: &Saturated,
) -> Result<Vec<u8>, LinkError> {
    let mut module = wasm_encoder::Module::new();
    module.section(&types(numbers)?);
    module.section(&imports(numbers));
    module.section(&functions(graph, numbers));
    let (tables, memories) = shared(graph, numbers)?;
    module.section(&tables).section(&memories);
    module.section(&globals(numbers));
    module.section(&exports(graph, numbers)?);
    module.section(&elements(graph, numbers)?);
    module.section(&code(graph, numbers, replaced, saturated)?);
    module.section(&image.section());
    Ok(module.finish())
}

/// Reencodes a module with the indices of the linked module.
struct Writer<'n, 'a> {
    numbers: &'n Numbers<'a>,
    module: usize,
}

impl Writer<'_, '_> {
    /// Reencodes a function, with folded constants and redirected calls.
    fn function(
        &mut self,
        module: &Module<'_>,
        (position, body): (usize, &FunctionBody<'_>),
        saturated: &Saturated,
    ) -> Result<Function, LinkError> {
        let folded = Folded::of(module, body)?;
        let mut function = self.new_function_with_parsed_locals(body)?;
        let mut reader = body.get_operators_reader()?;
        let mut index = 0;
        while !reader.eof() {
            if let Some(operator) = folded.apply(index, reader.read()?) {
                let (before, operator) = saturated.apply((self.module, position), operator);
                if let Some(before) = before {
                    function.instruction(&self.instruction(before)?);
                }
                function.instruction(&self.instruction(operator)?);
            }
            index += 1;
        }
        Ok(function)
    }
}

type Written<T> = Result<T, reencode::Error<LinkError>>;

impl Reencode for Writer<'_, '_> {
    type Error = LinkError;

    fn type_index(&mut self, ty: u32) -> Written<u32> {
        Ok(self.numbers.types[self.module][ty as usize])
    }

    fn function_index(&mut self, function: u32) -> Written<u32> {
        Ok(self.numbers.functions[self.module][function as usize])
    }

    fn global_index(&mut self, global: u32) -> Written<u32> {
        match self.numbers.globals[self.module][global as usize] {
            ResolvedGlobal::Mutable(number) => Ok(number),
            ResolvedGlobal::Constant(_) => Err(reencode::Error::UserError(unexpected("a constant that is set"))),
        }
    }

    fn instruction<'b>(&mut self, operator: Operator<'b>) -> Written<Instruction<'b>> {
        if let Operator::GlobalGet { global_index } = operator
            && let ResolvedGlobal::Constant(value) = self.numbers.globals[self.module][global_index as usize]
        {
            return Ok(match value {
                Value::I32(value) => Instruction::I32Const(value),
                Value::I64(value) => Instruction::I64Const(value),
            });
        }
        if changes_more_than_memory(&operator) {
            return Err(reencode::Error::UserError(unexpected(format!(
                "a table or a segment that changes: {operator:?}"
            ))));
        }
        reencode::utils::instruction(self, operator)
    }
}

/// Whether the operator changes the state of an instance other than its memory and its globals. `sandbox/snapshot.rs`
/// only restores memory.
fn changes_more_than_memory(operator: &Operator<'_>) -> bool {
    matches!(
        operator,
        Operator::TableSet { .. }
            | Operator::TableGrow { .. }
            | Operator::TableFill { .. }
            | Operator::TableCopy { .. }
            | Operator::TableInit { .. }
            | Operator::ElemDrop { .. }
            | Operator::MemoryInit { .. }
            | Operator::DataDrop { .. }
    )
}

fn types(numbers: &Numbers<'_>) -> Result<TypeSection, LinkError> {
    let mut writer = Writer { numbers, module: 0 };
    let mut section = TypeSection::new();
    for ty in &numbers.all_types {
        section.ty().func_type(&writer.func_type(ty.clone())?);
    }
    Ok(section)
}

fn imports(numbers: &Numbers<'_>) -> ImportSection {
    let mut section = ImportSection::new();
    for host in &numbers.hosts {
        section.import(host.interface, host.name, EntityType::Function(host.ty));
    }
    section
}

fn functions(graph: &Graph<'_>, numbers: &Numbers<'_>) -> FunctionSection {
    let mut section = FunctionSection::new();
    for (module, types) in graph.modules.iter().zip(&numbers.types) {
        for ty in &module.functions {
            section.function(types[*ty as usize]);
        }
    }
    section
}

/// The only table and the only memory.
fn shared(graph: &Graph<'_>, numbers: &Numbers<'_>) -> Result<(TableSection, MemorySection), LinkError> {
    let mut writer = Writer { numbers, module: 0 };
    let mut tables = TableSection::new();
    let mut memories = MemorySection::new();
    for module in &graph.modules {
        for table in &module.tables {
            tables.table(writer.table_type(*table)?);
        }
        for memory in &module.memories {
            memories.memory(writer.memory_type(*memory)?);
        }
    }
    if tables.len() == 1 && memories.len() == 1 {
        Ok((tables, memories))
    } else {
        Err(unexpected(format!("{} tables and {} memories instead of one of each", tables.len(), memories.len())))
    }
}

fn globals(numbers: &Numbers<'_>) -> GlobalSection {
    let mut section = GlobalSection::new();
    for value in &numbers.changing {
        let (val_type, initial) = match value {
            Value::I32(value) => (ValType::I32, ConstExpr::i32_const(*value)),
            Value::I64(value) => (ValType::I64, ConstExpr::i64_const(*value)),
        };
        section.global(GlobalType { val_type, mutable: true, shared: false }, &initial);
    }
    section
}

fn exports(graph: &Graph<'_>, numbers: &Numbers<'_>) -> Result<ExportSection, LinkError> {
    let mut section = ExportSection::new();
    section.export("memory", ExportKind::Memory, 0);
    let mut reallocs = Vec::new();
    for export in &graph.exports {
        let mut add = |name: &str, function: u32| {
            let number = numbers.component_function(graph, function)?;
            section.export(name, ExportKind::Func, number);
            Ok::<_, LinkError>(())
        };
        add(export.name, export.lift.function)?;
        if let Some(function) = export.lift.post_return {
            add(&format!("cabi_post_{}", export.name), function)?;
        }
        reallocs.extend(export.lift.realloc);
    }
    // The functions that allocate lists passed by the host, in results and in arguments. All of them allocate from the
    // C library's heap, so that the first can be used for all.
    for (name, functions) in [("cabi_import_realloc", &graph.reallocs), ("cabi_export_realloc", &reallocs)] {
        if let Some(function) = functions.first() {
            section.export(name, ExportKind::Func, numbers.component_function(graph, *function)?);
        }
    }
    Ok(section)
}

/// The offset of a segment.
fn offset(
    numbers: &Numbers<'_>,
    module: usize,
    expression: &wasmparser::ConstExpr<'_>,
) -> Result<ConstExpr, LinkError> {
    let global = |index: u32| match numbers.globals[module][index as usize] {
        ResolvedGlobal::Constant(value) => Ok(value),
        ResolvedGlobal::Mutable(_) => Err(unexpected("a segment whose offset is a mutable global")),
    };
    match evaluate(expression, &global)? {
        Value::I32(value) => Ok(ConstExpr::i32_const(value)),
        Value::I64(_) => Err(unexpected("a segment with a 64-bit offset")),
    }
}

fn elements(graph: &Graph<'_>, numbers: &Numbers<'_>) -> Result<ElementSection, LinkError> {
    let mut section = ElementSection::new();
    for (position, module) in graph.modules.iter().enumerate() {
        let mut writer = Writer { numbers, module: position };
        for element in &module.elements {
            let ElementItems::Functions(functions) = &element.items else {
                return Err(unexpected("a table with anything but functions"));
            };
            if functions.count() == 0 {
                continue;
            }
            let items = writer.element_items(element.items.clone())?;
            match &element.kind {
                // With a constant offset the content of the table is known at compile time.
                ElementKind::Active { offset_expr, .. } => {
                    section.active(None, &offset(numbers, position, offset_expr)?, items)
                }
                ElementKind::Declared => section.declared(items),
                ElementKind::Passive => return Err(unexpected("a table that is filled later")),
            };
        }
    }
    Ok(section)
}

fn code(
    graph: &Graph<'_>,
    numbers: &Numbers<'_>,
    replaced: &[Replacement],
    saturated: &Saturated,
) -> Result<CodeSection, LinkError> {
    let mut section = CodeSection::new();
    for (position, module) in graph.modules.iter().enumerate() {
        let mut writer = Writer { numbers, module: position };
        for (index, body) in module.bodies.iter().enumerate() {
            match replaced.iter().find(|replacement| replacement.position == (position, index)) {
                Some(replacement) => section.function(&replacement.function),
                None => section.function(&writer.function(module, (index, body), saturated)?),
            };
        }
    }
    Ok(section)
}
