//! Puts constants that are added to an address into the instruction that uses the address.
//!
//! The interpreter is compiled with `-fno-strict-overflow`, so that to its compiler `p + 8` might begin again at zero, which the
//! offset of an instruction of WebAssembly does not: every field of every object is read by an addition and a load. But the first
//! MiB of the guest's memory, where its stack once was, is used by nobody (see [`super::stack`]): an address that begins again at zero
//! by the addition of less than that is none, and the offset may as well be the instruction's own, which costs nothing.

use wasmparser::{
    BlockType, ContType, FrameKind, FuncType, FunctionBody, MemArg, ModuleArity, Operator, RefType, SubType,
};

use super::LinkError;
use super::OLD_TOP;
use super::module::Module;

/// What is different in a function.
#[derive(Default)]
pub(super) struct Folded {
    /// Operators that are left out, in their order.
    dropped: Vec<usize>,
    /// What is added to the offset of an operator.
    offsets: Vec<(usize, u32)>,
}

/// A value on the stack that is a sum: where the constant stands, behind which is the addition.
#[derive(Clone, Copy)]
struct Sum {
    constant: usize,
    value: u32,
}

impl Folded {
    /// Finds the constants of a function that can go into an offset.
    pub(super) fn of(module: &Module<'_>, body: &FunctionBody<'_>) -> Result<Self, LinkError> {
        let mut folded = Self::default();
        // The values of which something is known, and what lies among them.
        let mut stack: Vec<Option<Sum>> = Vec::new();
        let mut before = None;
        let mut reader = body.get_operators_reader()?;
        let mut index = 0;
        while !reader.eof() {
            let mut operator = reader.read()?;
            let mut result = None;
            if let Some((memarg, above)) = memarg(&mut operator) {
                let address = stack.len().checked_sub(above + 1).and_then(|at| stack[at]);
                if let Some(sum) = address
                    && let Some(offset) = u64::from(sum.value).checked_add(memarg.offset)
                    && offset < u64::from(OLD_TOP)
                {
                    folded.dropped.extend([sum.constant, sum.constant + 1]);
                    folded.offsets.push((index, sum.value));
                }
            } else if let (Operator::I32Add, Some(value)) = (&operator, before) {
                result = Some(Sum { constant: index - 1, value });
            }
            before = match operator {
                Operator::I32Const { value: value @ 0.. } => Some(value.cast_unsigned()),
                _ => None,
            };
            match effect(module, &operator) {
                Some((taken, given)) => {
                    stack.truncate(stack.len().saturating_sub(taken));
                    stack.extend((0..given).map(|_| result));
                }
                // Where a block begins or ends, nothing is known.
                None => stack.clear(),
            }
            index += 1;
        }
        folded.dropped.sort_unstable();
        folded.offsets.sort_unstable();
        Ok(folded)
    }

    /// An operator as it is now; none where it is left out.
    pub(super) fn apply<'a>(&self, index: usize, mut operator: Operator<'a>) -> Option<Operator<'a>> {
        if self.dropped.binary_search(&index).is_ok() {
            return None;
        }
        if let Ok(at) = self.offsets.binary_search_by_key(&index, |(index, _)| *index)
            && let Some((memarg, _)) = memarg(&mut operator)
        {
            memarg.offset += u64::from(self.offsets[at].1);
        }
        Some(operator)
    }
}

/// What an operator reads or writes, and how many values lie above the address.
fn memarg<'o>(operator: &'o mut Operator<'_>) -> Option<(&'o mut MemArg, usize)> {
    use Operator as O;
    match operator {
        O::I32Load { memarg }
        | O::I64Load { memarg }
        | O::F32Load { memarg }
        | O::F64Load { memarg }
        | O::I32Load8S { memarg }
        | O::I32Load8U { memarg }
        | O::I32Load16S { memarg }
        | O::I32Load16U { memarg }
        | O::I64Load8S { memarg }
        | O::I64Load8U { memarg }
        | O::I64Load16S { memarg }
        | O::I64Load16U { memarg }
        | O::I64Load32S { memarg }
        | O::I64Load32U { memarg } => Some((memarg, 0)),
        O::I32Store { memarg }
        | O::I64Store { memarg }
        | O::F32Store { memarg }
        | O::F64Store { memarg }
        | O::I32Store8 { memarg }
        | O::I32Store16 { memarg }
        | O::I64Store8 { memarg }
        | O::I64Store16 { memarg }
        | O::I64Store32 { memarg } => Some((memarg, 1)),
        _ => None,
    }
}

/// How many values an operator takes and gives; none for one that begins or ends a block.
fn effect(module: &Module<'_>, operator: &Operator<'_>) -> Option<(usize, usize)> {
    use Operator as O;
    match operator {
        O::Block { .. }
        | O::Loop { .. }
        | O::If { .. }
        | O::Else
        | O::End
        | O::Br { .. }
        | O::BrTable { .. }
        | O::Return
        | O::Unreachable => None,
        // What is below the condition stays.
        O::BrIf { .. } => Some((1, 0)),
        O::Call { function_index } => arity(module, module.type_of(*function_index)?),
        O::CallIndirect { type_index, .. } => {
            let (taken, given) = arity(module, *type_index)?;
            Some((taken + 1, given))
        }
        other => {
            let (taken, given) = other.operator_arity(&NoTypes)?;
            Some((taken as usize, given as usize))
        }
    }
}

fn arity(module: &Module<'_>, ty: u32) -> Option<(usize, usize)> {
    let ty = module.types.get(ty as usize)?;
    Some((ty.params().len(), ty.results().len()))
}

/// Operators whose effect depends on types are looked at above, or end what is known.
struct NoTypes;

impl ModuleArity for NoTypes {
    fn sub_type_at(&self, _: u32) -> Option<&SubType> {
        None
    }

    fn tag_type_arity(&self, _: u32) -> Option<(u32, u32)> {
        None
    }

    fn type_index_of_function(&self, _: u32) -> Option<u32> {
        None
    }

    fn func_type_of_cont_type(&self, _: &ContType) -> Option<&FuncType> {
        None
    }

    fn sub_type_of_ref_type(&self, _: &RefType) -> Option<&SubType> {
        None
    }

    fn control_stack_height(&self) -> u32 {
        0
    }

    fn label_block(&self, _: u32) -> Option<(BlockType, FrameKind)> {
        None
    }
}
