//! The kernels' text.

const COMMON: &str = include_str!("../source/common.cuh");

/// A file of kernels, whole: it includes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its name, for messages of a compiler.
    pub name: &'static str,
    /// Its text.
    pub text: String,
}

/// Every file, in order of names.
pub fn sources() -> [Source; 6] {
    let source = |name, text: &str| Source { name, text: text.replace("#include \"common.cuh\"", COMMON) };
    [
        source("attention.cu", include_str!("../source/attention.cu")),
        source("elementwise.cu", include_str!("../source/elementwise.cu")),
        source("head.cu", include_str!("../source/head.cu")),
        source("norm.cu", include_str!("../source/norm.cu")),
        source("optimizer.cu", include_str!("../source/optimizer.cu")),
        source("rows.cu", include_str!("../source/rows.cu")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_includes_nothing_outside_the_shim() {
        for source in sources() {
            let includes: Vec<_> = source.text.lines().filter(|line| line.starts_with("#include")).collect();
            assert_eq!(includes, ["#include \"shim.h\""], "{}", source.name);
        }
    }
}
