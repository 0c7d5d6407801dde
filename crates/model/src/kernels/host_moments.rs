//! AdamW's moments in memory of the host that a device copies from and to.

/// fp32 values in memory of the host, page-locked where that matters.
pub trait HostValues: Send + Sync {
    /// The values.
    fn values(&self) -> &[f32];
    /// The same, to be changed.
    fn values_mut(&mut self) -> &mut [f32];
}

impl HostValues for Vec<f32> {
    fn values(&self) -> &[f32] {
        self
    }

    fn values_mut(&mut self) -> &mut [f32] {
        self
    }
}

/// Which of AdamW's moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Running means of gradients.
    First,
    /// Running means of their squares.
    Second,
}

impl Moment {
    /// Both.
    pub const ALL: [Self; 2] = [Self::First, Self::Second];
}

/// Both moments of every parameter.
pub struct HostMoments {
    first: Vec<Box<dyn HostValues>>,
    second: Vec<Box<dyn HostValues>>,
}

impl HostMoments {
    /// Of these memories, one of each for a parameter.
    pub fn new(first: Vec<Box<dyn HostValues>>, second: Vec<Box<dyn HostValues>>) -> Self {
        Self { first, second }
    }

    /// A moment of a parameter.
    pub fn of(&self, moment: Moment, parameter: usize) -> &dyn HostValues {
        match moment {
            Moment::First => &*self.first[parameter],
            Moment::Second => &*self.second[parameter],
        }
    }

    /// The same, to be changed.
    pub fn of_mut(&mut self, moment: Moment, parameter: usize) -> &mut dyn HostValues {
        match moment {
            Moment::First => &mut *self.first[parameter],
            Moment::Second => &mut *self.second[parameter],
        }
    }

    /// Makes all of them zero.
    pub fn clear(&mut self) {
        self.first.iter_mut().chain(&mut self.second).for_each(|values| values.values_mut().fill(0.0));
    }
}
