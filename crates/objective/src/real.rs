//! The two types of log-probabilities and gradients; all arithmetic in between is in f64.

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// f32 or f64: the element type of log-probabilities and of their gradients. Sealed.
pub trait Real: Copy + Default + PartialEq + std::fmt::Debug + Send + Sync + sealed::Sealed + 'static {
    /// The value as f64, without rounding.
    fn to_f64(self) -> f64;

    /// Rounded to the nearest.
    fn from_f64(value: f64) -> Self;
}

impl Real for f32 {
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value as Self
    }
}

impl Real for f64 {
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }

    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value
    }
}
