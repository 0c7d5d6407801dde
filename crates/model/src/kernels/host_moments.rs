//! AdamW's moments in memory of the host that a device copies from and to.

use rayon::prelude::*;

/// fp32 values in memory of the host, page-locked where that matters.
pub trait HostValues: Send + Sync {
    /// Values in the order of the parameter.
    fn values(&self) -> &[f32];
    /// The values, to be changed.
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
    /// The first moment, then the second.
    pub const ALL: [Self; 2] = [Self::First, Self::Second];
}

/// Values that a thread copies at a time.
const PIECE: usize = 1 << 18;

/// The moments of every parameter, in memory of the host.
pub struct HostMoments {
    first: Vec<Box<dyn HostValues>>,
    second: Vec<Box<dyn HostValues>>,
    /// What [`Self::save`] has copied, in ordinary memory, which is kept for the next time.
    saved: Vec<Vec<f32>>,
}

impl HostMoments {
    /// Moments in these memories, one of each for a parameter.
    pub fn new(first: Vec<Box<dyn HostValues>>, second: Vec<Box<dyn HostValues>>) -> Self {
        Self { first, second, saved: Vec::new() }
    }

    /// A moment of a parameter.
    pub fn of(&self, moment: Moment, parameter: usize) -> &dyn HostValues {
        match moment {
            Moment::First => &*self.first[parameter],
            Moment::Second => &*self.second[parameter],
        }
    }

    /// A parameter's moment, to be changed.
    pub fn of_mut(&mut self, moment: Moment, parameter: usize) -> &mut dyn HostValues {
        match moment {
            Moment::First => &mut *self.first[parameter],
            Moment::Second => &mut *self.second[parameter],
        }
    }

    /// Copies all moments over the previous copy, on all processors.
    pub fn save(&mut self) {
        let all = self.first.iter().chain(&self.second).map(|values| values.values());
        if self.saved.is_empty() {
            self.saved = all.clone().map(|values| vec![0.0; values.len()]).collect();
        }
        for (to, from) in self.saved.iter_mut().zip(all) {
            copy(to, from);
        }
    }

    /// Goes back to what was copied last; does nothing if nothing was.
    pub fn go_back(&mut self) {
        for (from, to) in self.saved.iter().zip(self.first.iter_mut().chain(&mut self.second)) {
            copy(to.values_mut(), from);
        }
    }

    /// Sets all moments to zero.
    pub fn clear(&mut self) {
        self.first.iter_mut().chain(&mut self.second).for_each(|values| values.values_mut().fill(0.0));
    }
}

fn copy(to: &mut [f32], from: &[f32]) {
    to.par_chunks_mut(PIECE).zip(from.par_chunks(PIECE)).for_each(|(to, from)| to.copy_from_slice(from));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_go_back_to_what_was_saved_last_and_the_copy_keeps_its_memory() {
        let values = |first: f32, count: usize| -> Box<dyn HostValues> {
            Box::new((0..count).map(|at| first + at as f32).collect::<Vec<f32>>())
        };
        let counts = [3, 0, 2 * PIECE + 5];
        let mut moments = HostMoments::new(
            counts.map(|count| values(1.0, count)).into(),
            counts.map(|count| values(0.5, count)).into(),
        );
        let read = |moments: &HostMoments| -> Vec<Vec<f32>> {
            let all = Moment::ALL.into_iter().flat_map(|moment| (0..3).map(move |id| (moment, id)));
            all.map(|(moment, id)| moments.of(moment, id).values().to_vec()).collect()
        };
        moments.go_back();
        let before = read(&moments);
        moments.save();
        let memory: Vec<*const f32> = moments.saved.iter().map(|values| values.as_ptr()).collect();
        moments.of_mut(Moment::Second, 2).values_mut()[PIECE] = -1.0;
        moments.of_mut(Moment::First, 0).values_mut().fill(9.0);
        moments.go_back();
        assert_eq!(read(&moments), before);
        moments.clear();
        moments.save();
        moments.of_mut(Moment::First, 0).values_mut().fill(9.0);
        moments.go_back();
        assert!(read(&moments).iter().flatten().all(|&value| value == 0.0));
        assert_eq!(moments.saved.iter().map(|values| values.as_ptr()).collect::<Vec<_>>(), memory);
    }
}
