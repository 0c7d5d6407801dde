//! Functions known by name.

/// A function of one or two arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    Sqrt,
    /// A root, with radicand and index as arguments.
    Root,
    Exp,
    /// The logarithm to the base e.
    Ln,
    /// The logarithm without a base: natural or decimal, depending on the author.
    Log,
    /// The decimal logarithm.
    Lg,
    /// A logarithm, with argument and base as arguments.
    LogBase,
    Sin,
    Cos,
    Tan,
    Cot,
    Sec,
    Csc,
    Arcsin,
    Arccos,
    Arctan,
    Arccot,
    Sinh,
    Cosh,
    Tanh,
    Arcsinh,
    Arccosh,
    Arctanh,
    Abs,
    Floor,
    Ceiling,
    Factorial,
    DoubleFactorial,
    /// A binomial coefficient of n and k.
    Binomial,
    /// The remainder of the dividend by the modulus.
    Modulo,
    Gcd,
    Lcm,
    Min,
    Max,
    RealPart,
    ImaginaryPart,
}

/// Names that take one argument, as commands and as words, longest first.
const NAMES: &[(&str, Function)] = &[
    ("arcsinh", Function::Arcsinh),
    ("arccosh", Function::Arccosh),
    ("arctanh", Function::Arctanh),
    ("arsinh", Function::Arcsinh),
    ("arcosh", Function::Arccosh),
    ("artanh", Function::Arctanh),
    ("asinh", Function::Arcsinh),
    ("acosh", Function::Arccosh),
    ("atanh", Function::Arctanh),
    ("arcsin", Function::Arcsin),
    ("arccos", Function::Arccos),
    ("arctan", Function::Arctan),
    ("arccot", Function::Arccot),
    ("arctg", Function::Arctan),
    ("asin", Function::Arcsin),
    ("acos", Function::Arccos),
    ("atan", Function::Arctan),
    ("sinh", Function::Sinh),
    ("cosh", Function::Cosh),
    ("tanh", Function::Tanh),
    ("sqrt", Function::Sqrt),
    ("floor", Function::Floor),
    ("ceil", Function::Ceiling),
    ("sin", Function::Sin),
    ("cos", Function::Cos),
    ("tan", Function::Tan),
    ("cot", Function::Cot),
    ("sec", Function::Sec),
    ("csc", Function::Csc),
    ("ctg", Function::Cot),
    ("tg", Function::Tan),
    ("exp", Function::Exp),
    ("log", Function::Log),
    ("abs", Function::Abs),
    ("lg", Function::Lg),
    ("ln", Function::Ln),
    ("gcd", Function::Gcd),
    ("lcm", Function::Lcm),
    ("min", Function::Min),
    ("max", Function::Max),
    ("Re", Function::RealPart),
    ("Im", Function::ImaginaryPart),
];

impl Function {
    /// The function with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, function)| *function)
    }

    /// The function that a word begins with, and the length of its name: `sinx` begins with `sin`.
    pub(crate) fn at_start(word: &str) -> Option<(Self, usize)> {
        let names = NAMES.iter().filter(|(name, _)| name.len() > 2 || *name == "ln" || *name == "lg");
        names.into_iter().find(|(name, _)| word.starts_with(name)).map(|(name, function)| (*function, name.len()))
    }

    /// Whether it takes two arguments in parentheses.
    pub(crate) fn takes_two(self) -> bool {
        matches!(self, Self::Gcd | Self::Lcm | Self::Min | Self::Max)
    }

    /// The inverse, denoted by `\sin^{-1}`.
    pub(crate) fn inverse(self) -> Option<Self> {
        Some(match self {
            Self::Sin => Self::Arcsin,
            Self::Cos => Self::Arccos,
            Self::Tan => Self::Arctan,
            Self::Cot => Self::Arccot,
            Self::Sinh => Self::Arcsinh,
            Self::Cosh => Self::Arccosh,
            Self::Tanh => Self::Arctanh,
            _ => return None,
        })
    }

    /// Name of the function in canonical spelling.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::LogBase => "log",
            Self::Factorial => "factorial",
            Self::DoubleFactorial => "doublefactorial",
            Self::Binomial => "binom",
            Self::Modulo => "mod",
            Self::Ceiling => "ceil",
            known => NAMES.iter().find(|(_, function)| *function == known).map_or("?", |(name, _)| name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_begin_with_the_longest_function() {
        assert_eq!(Function::at_start("sinx"), Some((Function::Sin, 3)));
        assert_eq!(Function::at_start("sinhx"), Some((Function::Sinh, 4)));
        assert_eq!(Function::at_start("lnx"), Some((Function::Ln, 2)));
        assert_eq!(Function::at_start("Rex"), None);
        assert_eq!(Function::at_start("x"), None);
    }

    #[test]
    fn every_name_is_found() {
        for (name, function) in NAMES {
            assert_eq!(Function::named(name), Some(*function));
            assert_ne!(function.name(), "?");
        }
    }
}
