//! Section `data.pauses`: the demonstrations of the built-in sums after a pause.

use evenkeel_proto::FieldError;
use evenkeel_tasks::Pauses;

use super::DataKind;
use super::section::section;
use super::validate::require;

section! {
    /// Section `data.pauses`: how demonstrations pause before right and wrong answers, and with it what the length of an answer says about
    /// it after the warm start.
    pub struct PausesSettings {
        /// Share of demonstrations that end wrong, 0 to 1.
        wrong: f64 = 0.4,
        /// Shortest and longest pause before a right answer, in tokens; every length between them is as likely.
        before_right: [u32; 2] = [0, 32],
        /// The same before a wrong answer.
        before_wrong: [u32; 2] = [0, 32],
    }
}

impl PausesSettings {
    /// Refuses ranges that are none, and pauses of problems that have none.
    pub(super) fn validate_with(&self, kind: DataKind) -> Result<(), FieldError> {
        let Self { wrong, before_right, before_wrong } = Self::default();
        for (field, is_set) in [
            ("wrong", self.wrong != wrong),
            ("before_right", self.before_right != before_right),
            ("before_wrong", self.before_wrong != before_wrong),
        ] {
            require(field, "set", kind == DataKind::Pauses || !is_set, "absent without data.kind = \"pauses\"")?;
        }
        require("wrong", self.wrong, (0.0..=1.0).contains(&self.wrong), "0 to 1")?;
        for (field, [shortest, longest]) in [("before_right", self.before_right), ("before_wrong", self.before_wrong)] {
            let allowed = "the shortest pause and one that is not shorter";
            require(field, format_args!("[{shortest}, {longest}]"), shortest <= longest, allowed)?;
        }
        Ok(())
    }

    pub(crate) fn of_demonstrations(&self) -> Pauses {
        Pauses { wrong: self.wrong, before_right: self.before_right, before_wrong: self.before_wrong }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_refused_where_they_make_no_sense() {
        let refused = |pauses: PausesSettings, kind| pauses.validate_with(kind).unwrap_err().to_string();
        let default = PausesSettings::default;
        let backwards = refused(PausesSettings { before_wrong: [9, 3], ..default() }, DataKind::Pauses);
        assert!(backwards.starts_with("before_wrong is [9, 3], allowed: the shortest pause"), "{backwards}");
        let share = refused(PausesSettings { wrong: f64::NAN, ..default() }, DataKind::Pauses);
        assert!(share.starts_with("wrong is NaN, allowed: 0 to 1"), "{share}");
        let elsewhere = refused(PausesSettings { before_right: [1, 2], ..default() }, DataKind::Arithmetic);
        assert!(
            elsewhere.starts_with("before_right is set, allowed: absent without data.kind = \"pauses\""),
            "{elsewhere}"
        );
        assert!(default().validate_with(DataKind::Arithmetic).is_ok());
    }
}
