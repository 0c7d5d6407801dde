//! How the core modules of a component are connected: which export each import refers to.

use std::collections::HashMap;

use wasmparser::{
    CanonicalFunction, CanonicalOption, ComponentAlias, ComponentExternalKind, ComponentTypeRef, ExternalKind, Import,
    Instance, MemoryType, Parser, Payload,
};

use super::module::Module;
use super::{LinkError, unexpected};

/// The export that identifies the shim: host functions need the memory of a module that imports them, so that this
/// module imports the shim instead. The module that fills the shim imports this export, together with the host
/// functions by the same names.
const SHIM: &str = "$imports";

/// The core half of a component.
#[derive(Default)]
pub(super) struct Graph<'a> {
    /// In the order of instantiation, without the shim and its filler.
    pub modules: Vec<Module<'a>>,
    /// The component's own exports.
    pub exports: Vec<Export<'a>>,
    all: Vec<Option<Module<'a>>>,
    instances: Vec<CoreInstance<'a>>,
    /// For each of `modules`, the instances that it imports from, by name.
    arguments: Vec<HashMap<&'a str, u32>>,
    functions: Vec<Item<'a>>,
    tables: Vec<Item<'a>>,
    memories: Vec<Item<'a>>,
    globals: Vec<Item<'a>>,
    component_functions: Vec<Option<Lift>>,
    /// Core functions that allocate the results of host functions.
    pub reallocs: Vec<u32>,
}

/// A function that the component exports.
pub(super) struct Export<'a> {
    pub name: &'a str,
    pub lift: Lift,
}

/// Indices among the core functions of the component.
#[derive(Clone, Copy)]
pub(super) struct Lift {
    pub function: u32,
    pub post_return: Option<u32>,
    pub realloc: Option<u32>,
}

/// Where an import or a core item of the component comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ItemOrigin {
    /// Defined by a module: its index in [`Graph::modules`], and the index in the module's index space of that kind.
    Module(usize, u32),
    /// A function of the host.
    Host,
}

/// A function that a module defines.
#[derive(Clone, Copy)]
pub(super) struct Defined {
    /// Index in the module's index space.
    pub index: u32,
    /// Index among the module's bodies.
    pub body: usize,
}

enum CoreInstance<'a> {
    /// An instance of the module at this index of [`Graph::modules`].
    Module(usize),
    Exports(HashMap<&'a str, (ExternalKind, u32)>),
    Shim,
    Filler,
}

#[derive(Clone, Copy)]
enum Item<'a> {
    Export { instance: u32, name: &'a str },
    Host,
}

impl<'a> Graph<'a> {
    /// Reads a component whose core modules share one memory.
    pub(super) fn read(component: &'a [u8]) -> Result<Self, LinkError> {
        let mut graph = Self::default();
        let mut rest = component;
        let mut parser = Parser::new(0);
        let truncated = || unexpected("it is truncated");
        loop {
            let (payload, length) = match parser.parse(rest, true)? {
                wasmparser::Chunk::Parsed { payload, consumed } => (payload, consumed),
                wasmparser::Chunk::NeedMoreData(_) => return Err(truncated()),
            };
            rest = &rest[length..];
            match payload {
                Payload::ModuleSection { unchecked_range, .. } => {
                    let module = component.get(unchecked_range.clone()).ok_or_else(truncated)?;
                    graph.all.push(Some(Module::read(module)?));
                    rest = &component[unchecked_range.end..];
                }
                // Wraps an exported interface. Only the builder's own interface is exported.
                Payload::ComponentSection { unchecked_range, .. } => {
                    rest = component.get(unchecked_range.end..).ok_or_else(truncated)?;
                }
                Payload::InstanceSection(instances) => {
                    for instance in instances {
                        graph.instance(instance?)?;
                    }
                }
                Payload::ComponentAliasSection(aliases) => {
                    for alias in aliases {
                        graph.alias(alias?)?;
                    }
                }
                Payload::ComponentCanonicalSection(functions) => {
                    for function in functions {
                        graph.canonical(function?)?;
                    }
                }
                Payload::ComponentImportSection(imports) => {
                    for import in imports {
                        if let ComponentTypeRef::Func(_) = import?.ty {
                            graph.component_functions.push(None);
                        }
                    }
                }
                Payload::ComponentExportSection(exports) => {
                    for export in exports {
                        graph.export(export?)?;
                    }
                }
                Payload::End(_) => return Ok(graph),
                _ => {}
            }
        }
    }

    /// The memory of the component, which must have exactly one.
    pub(super) fn memory(&mut self) -> Result<&mut MemoryType, LinkError> {
        let mut memories = self.modules.iter_mut().flat_map(|module| &mut module.memories);
        match (memories.next(), memories.next()) {
            (Some(memory), None) => Ok(memory),
            _ => Err(unexpected("not exactly one memory")),
        }
    }

    /// The origin of an import of a module.
    pub(super) fn origin(
        &self,
        module: usize,
        import: &Import<'_>,
        kind: ExternalKind,
    ) -> Result<ItemOrigin, LinkError> {
        let instance = self.arguments[module].get(import.module);
        let instance = instance.ok_or_else(|| unexpected(format!("no instance for `{}`", import.module)))?;
        self.lookup(*instance, import.name, kind)
    }

    /// A function that a module defines, by its name in the name section.
    pub(super) fn defined(&self, module: usize, name: &str) -> Result<Defined, LinkError> {
        let module = &self.modules[module];
        let imported = module.imports_of(ExternalKind::Func).count() as u32;
        let defined = module.names.get(name).and_then(|index| {
            let body = index.checked_sub(imported)? as usize;
            (body < module.bodies.len()).then_some(Defined { index: *index, body })
        });
        defined.ok_or_else(|| unexpected(format!("no function is called `{name}`")))
    }

    /// The origin of a core function of the component.
    pub(super) fn function(&self, index: u32) -> Result<ItemOrigin, LinkError> {
        self.item(index, ExternalKind::Func)
    }

    fn lookup(&self, instance: u32, name: &str, kind: ExternalKind) -> Result<ItemOrigin, LinkError> {
        let missing = || unexpected(format!("nothing is called `{name}`"));
        match self.instances.get(instance as usize).ok_or_else(missing)? {
            CoreInstance::Exports(exports) => match exports.get(name) {
                Some((found, index)) if *found == kind => self.item(*index, kind),
                _ => Err(missing()),
            },
            CoreInstance::Module(module) => match self.modules[*module].exports.get(name) {
                Some((found, index)) if *found == kind => {
                    match self.modules[*module].imports_of(kind).nth(*index as usize) {
                        Some(import) => self.origin(*module, import, kind),
                        None => Ok(ItemOrigin::Module(*module, *index)),
                    }
                }
                _ => Err(missing()),
            },
            CoreInstance::Shim => {
                // The function that it is filled with.
                let filled = self.instances.iter().find_map(|instance| match instance {
                    CoreInstance::Exports(exports) if exports.contains_key(SHIM) => exports.get(name),
                    _ => None,
                });
                let (_, index) = filled.ok_or_else(missing)?;
                self.item(*index, kind)
            }
            CoreInstance::Filler => Err(missing()),
        }
    }

    fn item(&self, index: u32, kind: ExternalKind) -> Result<ItemOrigin, LinkError> {
        let items = match kind {
            ExternalKind::Func => &self.functions,
            ExternalKind::Table => &self.tables,
            ExternalKind::Memory => &self.memories,
            ExternalKind::Global => &self.globals,
            _ => return Err(unexpected(format!("an import of the kind {kind:?}"))),
        };
        match items.get(index as usize) {
            Some(Item::Export { instance, name }) => self.lookup(*instance, name, kind),
            Some(Item::Host) => Ok(ItemOrigin::Host),
            None => Err(unexpected(format!("no item {index} of the kind {kind:?}"))),
        }
    }

    fn instance(&mut self, instance: Instance<'a>) -> Result<(), LinkError> {
        let instance = match instance {
            Instance::FromExports(exports) => {
                CoreInstance::Exports(exports.iter().map(|export| (export.name, (export.kind, export.index))).collect())
            }
            Instance::Instantiate { module_index, args } => {
                let module = self.all.get_mut(module_index as usize).and_then(Option::take);
                let mut module = module.ok_or_else(|| unexpected("a module that is instantiated twice"))?;
                module.drop_unreachable()?;
                if module.exports.contains_key(SHIM) {
                    CoreInstance::Shim
                } else if module.imports.iter().any(|import| import.name == SHIM) {
                    CoreInstance::Filler
                } else {
                    self.modules.push(module);
                    self.arguments.push(args.iter().map(|argument| (argument.name, argument.index)).collect());
                    CoreInstance::Module(self.modules.len() - 1)
                }
            }
        };
        self.instances.push(instance);
        Ok(())
    }

    fn alias(&mut self, alias: ComponentAlias<'a>) -> Result<(), LinkError> {
        match alias {
            ComponentAlias::CoreInstanceExport { kind, instance_index, name } => {
                let items = match kind {
                    ExternalKind::Func => &mut self.functions,
                    ExternalKind::Table => &mut self.tables,
                    ExternalKind::Memory => &mut self.memories,
                    ExternalKind::Global => &mut self.globals,
                    _ => return Err(unexpected(format!("an export of the kind {kind:?}"))),
                };
                items.push(Item::Export { instance: instance_index, name });
            }
            ComponentAlias::InstanceExport { kind: ComponentExternalKind::Func, .. } => {
                self.component_functions.push(None);
            }
            ComponentAlias::InstanceExport { .. } | ComponentAlias::Outer { .. } => {}
        }
        Ok(())
    }

    fn canonical(&mut self, function: CanonicalFunction) -> Result<(), LinkError> {
        let CanonicalFunction::Lift { core_func_index, options, .. } = function else {
            if let CanonicalFunction::Lower { options, .. } = &function {
                for option in options {
                    self.lower_option(option)?;
                }
            }
            self.functions.push(Item::Host);
            return Ok(());
        };
        let mut lift = Lift { function: core_func_index, post_return: None, realloc: None };
        for option in options {
            match option {
                CanonicalOption::PostReturn(function) => lift.post_return = Some(function),
                CanonicalOption::Realloc(function) => lift.realloc = Some(function),
                CanonicalOption::Memory(_) | CanonicalOption::UTF8 => {}
                other => return Err(unexpected(format!("an export with the option {other:?}"))),
            }
        }
        self.component_functions.push(Some(lift));
        Ok(())
    }

    fn lower_option(&mut self, option: &CanonicalOption) -> Result<(), LinkError> {
        match option {
            CanonicalOption::Memory(_) | CanonicalOption::UTF8 => Ok(()),
            // Every library has a function of this name, which allocates from the C library's heap. A different name
            // means a different allocator.
            CanonicalOption::Realloc(function) => match self.functions.get(*function as usize) {
                Some(Item::Export { name: "cabi_realloc", .. }) => {
                    self.reallocs.push(*function);
                    Ok(())
                }
                _ => Err(unexpected("an allocation function with an unknown name")),
            },
            other => Err(unexpected(format!("an import with the option {other:?}"))),
        }
    }

    fn export(&mut self, export: wasmparser::ComponentExport<'a>) -> Result<(), LinkError> {
        if export.kind != ComponentExternalKind::Func {
            return Ok(());
        }
        let name = export.name.name;
        let lift = self.component_functions.get(export.index as usize).copied().flatten();
        let lift = lift.ok_or_else(|| unexpected(format!("the export `{name}`, which no module has")))?;
        self.exports.push(Export { name, lift });
        // An export also defines a function of the component.
        self.component_functions.push(Some(lift));
        Ok(())
    }
}
