//! The parts of a core module.

use std::collections::HashMap;

use wasmparser::{
    Data, Element, ElementItems, ExternalKind, FuncType, FunctionBody, Global, Import, KnownCustom, MemoryType, Name,
    NameSectionReader, Parser, Payload, TableType, TypeRef,
};

use super::{LinkError, unexpected};

/// The parts of a core module that matter for linking.
#[derive(Default)]
pub(super) struct Module<'a> {
    pub types: Vec<FuncType>,
    pub imports: Vec<Import<'a>>,
    /// Type indices of the defined functions.
    pub functions: Vec<u32>,
    pub bodies: Vec<FunctionBody<'a>>,
    pub tables: Vec<TableType>,
    pub memories: Vec<MemoryType>,
    pub globals: Vec<Global<'a>>,
    pub exports: HashMap<&'a str, (ExternalKind, u32)>,
    pub elements: Vec<Element<'a>>,
    pub data: Vec<Data<'a>>,
    /// Functions by their names in the name section. For duplicates the first counts.
    pub names: HashMap<&'a str, u32>,
}

impl<'a> Module<'a> {
    /// Reads a module. Features that cannot be linked are refused.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, LinkError> {
        let mut module = Self::default();
        for payload in Parser::new(0).parse_all(bytes) {
            match payload? {
                Payload::TypeSection(types) => {
                    module.types = types.into_iter_err_on_gc_types().collect::<Result<_, _>>()?;
                }
                Payload::ImportSection(imports) => module.imports = imports.into_imports().collect::<Result<_, _>>()?,
                Payload::FunctionSection(functions) => {
                    module.functions = functions.into_iter().collect::<Result<_, _>>()?;
                }
                Payload::TableSection(tables) => {
                    for table in tables {
                        module.tables.push(table?.ty);
                    }
                }
                Payload::MemorySection(memories) => module.memories = memories.into_iter().collect::<Result<_, _>>()?,
                Payload::GlobalSection(globals) => module.globals = globals.into_iter().collect::<Result<_, _>>()?,
                Payload::ExportSection(exports) => {
                    for export in exports {
                        let export = export?;
                        module.exports.insert(export.name, (export.kind, export.index));
                    }
                }
                Payload::ElementSection(elements) => {
                    module.elements = elements.into_iter().collect::<Result<_, _>>()?;
                }
                Payload::DataSection(data) => module.data = data.into_iter().collect::<Result<_, _>>()?,
                Payload::CodeSectionEntry(body) => module.bodies.push(body),
                Payload::CustomSection(section) => {
                    if let KnownCustom::Name(names) = section.as_known() {
                        module.name(names)?;
                    }
                }
                Payload::StartSection { .. } => return Err(unexpected("a module with a start function")),
                Payload::TagSection(_) => return Err(unexpected("a module with exception tags")),
                Payload::DataCountSection { .. } => {
                    return Err(unexpected("a module that counts its data segments beforehand"));
                }
                Payload::Version { .. } | Payload::CodeSectionStart { .. } | Payload::End(_) => {}
                other => return Err(unexpected(format!("a section of another kind: {other:?}"))),
            }
        }
        Ok(module)
    }

    fn name(&mut self, names: NameSectionReader<'a>) -> Result<(), LinkError> {
        for names in names {
            if let Name::Function(functions) = names? {
                for function in functions {
                    let function = function?;
                    self.names.entry(function.name).or_insert(function.index);
                }
            }
        }
        Ok(())
    }

    /// Drops the functions of a module without exports, which nobody can call. componentize-py's last module contains
    /// such a function: it once wrote addresses into every library's globals, which are constants only without it.
    pub(super) fn drop_unreachable(&mut self) -> Result<(), LinkError> {
        if !self.exports.is_empty() {
            return Ok(());
        }
        let imported = self.imports_of(ExternalKind::Func).count() as u32;
        for element in &self.elements {
            if let ElementItems::Functions(functions) = &element.items {
                for function in functions.clone() {
                    if function? >= imported {
                        return Err(unexpected("a module without exports whose functions are in a table"));
                    }
                }
            }
        }
        self.functions.clear();
        self.bodies.clear();
        Ok(())
    }

    /// The type of a function.
    pub(super) fn type_of(&self, function: u32) -> Option<u32> {
        let mut imported = self.imports_of(ExternalKind::Func);
        match imported.nth(function as usize) {
            Some(Import { ty: TypeRef::Func(ty), .. }) => Some(*ty),
            Some(_) => None,
            None => {
                let imported = self.imports_of(ExternalKind::Func).count();
                self.functions.get((function as usize).checked_sub(imported)?).copied()
            }
        }
    }

    /// The imports of a kind, in the order of its index space.
    pub(super) fn imports_of(&self, kind: ExternalKind) -> impl Iterator<Item = &Import<'a>> {
        self.imports.iter().filter(move |import| kind_of(import.ty) == kind)
    }
}

/// The index space that an import adds to.
fn kind_of(ty: TypeRef) -> ExternalKind {
    match ty {
        TypeRef::Func(_) | TypeRef::FuncExact(_) => ExternalKind::Func,
        TypeRef::Table(_) => ExternalKind::Table,
        TypeRef::Memory(_) => ExternalKind::Memory,
        TypeRef::Global(_) => ExternalKind::Global,
        TypeRef::Tag(_) => ExternalKind::Tag,
    }
}
