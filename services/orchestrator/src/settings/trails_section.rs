//! Section `data.trails`: the demonstrations of the built-in sums, which end with filler tokens (the trail).

use evenkeel_data::Trails;
use evenkeel_proto::FieldError;

use super::section::section;

section! {
    /// Section `data.trails`: how many filler tokens (the trail) follow right and wrong answers in demonstrations, and
    /// so what the length of a response says about its correctness after the warm start.
    pub struct TrailsSettings {
        /// Fraction of demonstrations with a wrong answer, 0 to 1.
        wrong: f64 = 0.4,
        /// Minimum and maximum number of filler tokens appended after a right answer, drawn uniformly.
        after_right: [u32; 2] = [0, 32],
        /// Minimum and maximum number of filler tokens appended after a wrong answer, drawn uniformly.
        after_wrong: [u32; 2] = [0, 32],
    }
}

impl TrailsSettings {
    /// Refuses empty ranges, and trails where problems have none.
    pub(super) fn validate_with(&self, is_used: bool) -> Result<(), FieldError> {
        let Self { wrong, after_right, after_wrong } = Self::default();
        for (field, is_set) in [
            ("wrong", self.wrong != wrong),
            ("after_right", self.after_right != after_right),
            ("after_wrong", self.after_wrong != after_wrong),
        ] {
            FieldError::ensure(is_used || !is_set, field, "set", "absent without data.kind = \"trails\"")?;
        }
        FieldError::ensure((0.0..=1.0).contains(&self.wrong), "wrong", self.wrong, "0 to 1")?;
        for (field, [shortest, longest]) in [("after_right", self.after_right), ("after_wrong", self.after_wrong)] {
            let allowed = "the shortest trail and one that is not shorter";
            FieldError::ensure(shortest <= longest, field, format_args!("[{shortest}, {longest}]"), allowed)?;
        }
        Ok(())
    }

    pub(crate) fn of_demonstrations(&self) -> Trails {
        Trails { wrong: self.wrong, after_right: self.after_right, after_wrong: self.after_wrong }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trails_are_refused_where_they_make_no_sense() {
        let refused = |trails: TrailsSettings, is_used| trails.validate_with(is_used).unwrap_err().to_string();
        let default = TrailsSettings::default;
        let backwards = refused(TrailsSettings { after_wrong: [9, 3], ..default() }, true);
        assert!(backwards.starts_with("after_wrong is [9, 3], allowed: the shortest trail"), "{backwards}");
        let share = refused(TrailsSettings { wrong: f64::NAN, ..default() }, true);
        assert!(share.starts_with("wrong is NaN, allowed: 0 to 1"), "{share}");
        let elsewhere = refused(TrailsSettings { after_right: [1, 2], ..default() }, false);
        assert!(
            elsewhere.starts_with("after_right is set, allowed: absent without data.kind = \"trails\""),
            "{elsewhere}"
        );
        assert!(default().validate_with(false).is_ok());
    }
}
