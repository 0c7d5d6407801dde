//! The functions of NVIDIA's libraries that candle's CUDA backend calls, defined here so that a program starts without
//! the libraries.
//!
//! Each is a jump through a slot. At first the slot leads to [`resolve`], which opens the library, finds the function
//! and stores its address; from then on a call costs one indirect jump. The linker takes these definitions before those
//! of the shared libraries, which it then drops (`--as-needed`). A function that candle begins to call and that is not
//! listed in `link/functions.rs` makes the program depend on its library again; `bench/gpu/build.sh` refuses that.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::library::Library;
use crate::search::open;

/// Makes the linker take this module.
pub(crate) fn keep() {
    std::hint::black_box(&raw const evenkeel_cuda_slots);
}

unsafe extern "C" {
    /// One slot for each function, in the order of [`functions::FUNCTIONS`].
    static evenkeel_cuda_slots: AtomicUsize;
}

/// Declares the jumps of all functions and their names.
macro_rules! jumps {
    ($($library:ident { $($name:ident)* })*) => {
        pub(super) const FUNCTIONS: &[(Library, &str)] = &[$($((Library::$library, stringify!($name)),)*)*];
        std::arch::global_asm!(
            ".pushsection .data.evenkeel_cuda,\"aw\",@progbits",
            ".balign 8",
            ".globl evenkeel_cuda_slots",
            ".hidden evenkeel_cuda_slots",
            "evenkeel_cuda_slots:",
            $($(concat!(".Lslot_", stringify!($name), ": .quad .Lfirst_", stringify!($name)),)*)*
            ".popsection",
            ".pushsection .text.evenkeel_cuda,\"ax\",@progbits",
            $($(concat!(
                ".globl ", stringify!($name), "\n",
                ".hidden ", stringify!($name), "\n",
                ".type ", stringify!($name), ",@function\n",
                stringify!($name), ": jmp *.Lslot_", stringify!($name), "(%rip)\n",
                ".Lfirst_", stringify!($name), ": lea .Lslot_", stringify!($name), "(%rip), %r11\n",
                "jmp .Levenkeel_cuda_resolve"
            ),)*)*
            // Keeps all registers that may carry arguments. Seven pushes align the stack.
            ".Levenkeel_cuda_resolve:",
            "push %rax", "push %rdi", "push %rsi", "push %rdx", "push %rcx", "push %r8", "push %r9",
            "sub $128, %rsp",
            "movups %xmm0, (%rsp)", "movups %xmm1, 16(%rsp)", "movups %xmm2, 32(%rsp)", "movups %xmm3, 48(%rsp)",
            "movups %xmm4, 64(%rsp)", "movups %xmm5, 80(%rsp)", "movups %xmm6, 96(%rsp)", "movups %xmm7, 112(%rsp)",
            "mov %r11, %rdi",
            "call {resolve}",
            "mov %rax, %r11",
            "movups (%rsp), %xmm0", "movups 16(%rsp), %xmm1", "movups 32(%rsp), %xmm2", "movups 48(%rsp), %xmm3",
            "movups 64(%rsp), %xmm4", "movups 80(%rsp), %xmm5", "movups 96(%rsp), %xmm6", "movups 112(%rsp), %xmm7",
            "add $128, %rsp",
            "pop %r9", "pop %r8", "pop %rcx", "pop %rdx", "pop %rsi", "pop %rdi", "pop %rax",
            "jmp *%r11",
            ".popsection",
            resolve = sym super::resolve,
            options(att_syntax)
        );
    };
}

/// Functions of candle for quantised weights and mixtures of experts, which Evenkeel has none of: a call fails as not
/// supported (`cudaErrorNotSupported`). Defined here they keep candle's own out of the program, and with them the CUDA
/// runtime's library. A build need not even compile those (`nvcc.sh`).
macro_rules! refusals {
    ($($name:ident)*) => {
        std::arch::global_asm!(
            ".pushsection .text.evenkeel_cuda,\"ax\",@progbits",
            $(concat!(
                ".globl ", stringify!($name), "\n",
                ".hidden ", stringify!($name), "\n",
                ".type ", stringify!($name), ",@function\n",
                stringify!($name), ": mov $801, %eax\n",
                "ret"
            ),)*
            ".popsection",
            options(att_syntax)
        );
    };
}

mod functions;

/// Finds the function of a slot and stores its address in it.
extern "C" fn resolve(slot: &AtomicUsize) -> usize {
    let offset = std::ptr::from_ref(slot) as usize - (&raw const evenkeel_cuda_slots) as usize;
    let (library, name) = functions::FUNCTIONS[offset / size_of::<AtomicUsize>()];
    let address = match open(library) {
        Ok(opened) => opened.address(name).ok_or_else(|| format!("{} has no function {name}", opened.path().display())),
        Err(missing) => Err(missing.to_string()),
    };
    match address {
        Ok(address) => {
            slot.store(address as usize, Ordering::Relaxed);
            address as usize
        }
        Err(error) => {
            // The caller is C's, and expects a result that only the library can give.
            let _ = writeln!(std::io::stderr(), "error: {error}");
            std::process::abort();
        }
    }
}
