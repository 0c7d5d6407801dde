//! Folds constants that are added to an address into the offset of the instruction that uses it.
//!
//! The interpreter is compiled with `-fno-strict-overflow`. The compiler must therefore assume that `p + 8` may wrap
//! around, which offsets of WebAssembly instructions do not, and accesses every field of every object by an addition
//! and a load. But the first MiB of the guest's memory, where its stack used to be, is unused (see [`super::stack`]):
//! an address that wraps around by adding less than that is never valid. The constant can therefore become the offset
//! of the instruction, which costs nothing.

use wasmparser::{
    BlockType, ContType, FrameKind, FuncType, FunctionBody, MemArg, ModuleArity, Operator, RefType, SubType,
};

use super::LinkError;
use super::OLD_TOP;
use super::module::Module;

/// The changes to a function.
#[derive(Default)]
pub(super) struct Folded {
    /// Indices of omitted operators, ascending.
    dropped: Vec<usize>,
    /// Constants to add to the offset of an operator.
    offsets: Vec<(usize, u32)>,
}

/// A value on the stack that is a sum: the index of its constant, which the addition follows.
#[derive(Clone, Copy)]
struct Sum {
    constant: usize,
    value: u32,
}

impl Folded {
    /// Finds the constants that can be folded.
    pub(super) fn of(module: &Module<'_>, body: &FunctionBody<'_>) -> Result<Self, LinkError> {
        let mut folded = Self::default();
        // The known part of the operand stack.
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
                // At the start or end of a block nothing is known.
                None => stack.clear(),
            }
            index += 1;
        }
        folded.dropped.sort_unstable();
        folded.offsets.sort_unstable();
        Ok(folded)
    }

    /// The changed operator; `None` if it is omitted.
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

/// The memory operand of an operator, and the number of values above the address on the stack.
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

/// How many values an operator pops and pushes; `None` for operators that start or end a block.
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
        // Values below the condition stay.
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

/// No type information: operators whose effect depends on types are handled above, or treated as unknown.
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
