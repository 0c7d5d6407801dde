//! What a message will take in memory, found out from its bytes as they come and before any of it is decoded.

use super::schema::{Field, Kind, Schema};

const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const LENGTH_DELIMITED: u64 = 2;
const START_GROUP: u64 = 3;
const END_GROUP: u64 = 4;
const FIXED_32: u64 = 5;

/// Bytes that are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Broken;

/// Looks through one message after the other of a stream.
#[derive(Debug)]
pub(super) struct Scan {
    schema: &'static Schema,
    request: Kind,
    /// Messages within each other that have begun, the innermost last, with the place at which each ends.
    open: Vec<(Kind, u64)>,
    /// Groups that have begun. No message here has one, so that all in them is skipped.
    groups: usize,
    next: Next,
    /// Bytes of the message that were passed.
    position: u64,
    decoded: u64,
}

/// What comes next.
#[derive(Debug, Clone, Copy)]
enum Next {
    /// Number and type of a field.
    Key(Varint),
    /// A number.
    Number(Varint),
    /// The length of what a field holds.
    Length(Varint, Option<Field>),
    /// So many bytes that are not looked into.
    Skip(u64),
}

/// A number of which some bytes were read.
#[derive(Debug, Clone, Copy, Default)]
struct Varint {
    value: u64,
    bits: u32,
}

impl Varint {
    /// Goes on by a byte: the number where it is whole.
    fn pass(&mut self, byte: u8) -> Result<Option<u64>, Broken> {
        if self.bits >= 64 {
            return Err(Broken);
        }
        self.value |= u64::from(byte & 0x7f) << self.bits;
        self.bits += 7;
        Ok((byte & 0x80 == 0).then_some(self.value))
    }
}

impl Scan {
    /// For calls of a method. `None` where its messages are not known.
    pub(super) fn of(method: &str) -> Option<Self> {
        let schema = Schema::known();
        let request = schema.request(method)?;
        let next = Next::Key(Varint::default());
        Some(Self { schema, request, open: Vec::new(), groups: 0, next, position: 0, decoded: 0 })
    }

    /// Begins with a message of so many bytes.
    pub(super) fn begin(&mut self, length: u64) {
        self.open.clear();
        self.open.push((self.request, length));
        self.next = Next::Key(Varint::default());
        (self.groups, self.position, self.decoded) = (0, 0, 0);
    }

    /// Bytes of memory that the message takes as far as it was read, besides its own.
    pub(super) fn decoded(&self) -> u64 {
        self.decoded
    }

    /// Goes on by these bytes of the message.
    pub(super) fn pass(&mut self, mut bytes: &[u8]) -> Result<(), Broken> {
        while let Some((&first, rest)) = bytes.split_first() {
            if let Next::Skip(left) = self.next {
                let length = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                (self.position, bytes) = (self.position + length as u64, &bytes[length..]);
                self.next = Next::Skip(left - length as u64);
            } else {
                (self.position, bytes) = (self.position + 1, rest);
                self.next = self.byte(first)?;
            }
            if matches!(self.next, Next::Skip(0)) {
                self.next = Next::Key(Varint::default());
            }
            if matches!(self.next, Next::Key(Varint { bits: 0, .. })) {
                while self.open.len() > 1 && self.open.last().is_some_and(|(_, end)| *end <= self.position) {
                    self.open.pop();
                }
            }
        }
        Ok(())
    }

    fn byte(&mut self, byte: u8) -> Result<Next, Broken> {
        match self.next {
            Next::Key(mut key) => match key.pass(byte)? {
                Some(key) => self.field(key),
                None => Ok(Next::Key(key)),
            },
            Next::Number(mut number) => Ok(match number.pass(byte)? {
                Some(_) => Next::Skip(0),
                None => Next::Number(number),
            }),
            Next::Length(mut length, field) => match length.pass(byte)? {
                Some(length) => self.enter(length, field),
                None => Ok(Next::Length(length, field)),
            },
            Next::Skip(_) => Err(Broken),
        }
    }

    fn field(&mut self, key: u64) -> Result<Next, Broken> {
        let &(of, _) = self.open.last().ok_or(Broken)?;
        let number = u32::try_from(key >> 3).map_err(|_| Broken)?;
        let field = if self.groups == 0 { self.schema.field(of, number) } else { None };
        if let (VARINT | FIXED_64 | FIXED_32, Some(Field::Numbers { element, .. })) = (key & 7, field) {
            self.decoded = self.decoded.saturating_add(element);
        }
        match key & 7 {
            VARINT => return Ok(Next::Number(Varint::default())),
            FIXED_64 => return Ok(Next::Skip(8)),
            FIXED_32 => return Ok(Next::Skip(4)),
            LENGTH_DELIMITED => return Ok(Next::Length(Varint::default(), field)),
            START_GROUP => self.groups += 1,
            END_GROUP => self.groups = self.groups.checked_sub(1).ok_or(Broken)?,
            _ => return Err(Broken),
        }
        Ok(Next::Skip(0))
    }

    /// A field of this length begins.
    fn enter(&mut self, length: u64, field: Option<Field>) -> Result<Next, Broken> {
        let &(_, around) = self.open.last().ok_or(Broken)?;
        let end = self.position.checked_add(length).filter(|end| *end <= around).ok_or(Broken)?;
        let (added, next) = match field {
            None => (0, Next::Skip(length)),
            Some(Field::Text { element }) => (element + length, Next::Skip(length)),
            Some(Field::Numbers { element, written }) => {
                ((length / written).saturating_mul(element), Next::Skip(length))
            }
            Some(Field::Message { of, element }) => {
                self.open.push((of, end));
                (element, Next::Skip(0))
            }
        };
        self.decoded = self.decoded.saturating_add(added);
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::{
        CodeTask, CodeTest, CodeTests, Segment, TrainGroup, TrainRequest, TrainSample, VerifyItem, VerifyOneRequest,
        code_task::TestsSource, verify_item::Task,
    };
    use prost::Message;

    use super::*;

    const VERIFY_ONE: &str = "evenkeel.v1.Reward/VerifyOne";

    /// What is found of a message that comes in pieces of so many bytes.
    fn scanned(method: &str, message: &[u8], piece: usize) -> Result<u64, Broken> {
        let mut scan = Scan::of(method).unwrap();
        scan.begin(message.len() as u64);
        message.chunks(piece).try_for_each(|piece| scan.pass(piece))?;
        Ok(scan.decoded())
    }

    fn tests(tests: Vec<CodeTest>) -> Vec<u8> {
        let tests = CodeTests { tests, function_name: "f".to_owned() };
        let task = CodeTask { tests_source: Some(TestsSource::Tests(tests)), ..CodeTask::default() };
        let item = VerifyItem { id: "a".to_owned(), task: Some(Task::Code(task)), ..VerifyItem::default() };
        VerifyOneRequest { item: Some(item) }.encode_to_vec()
    }

    #[test]
    fn empty_elements_count_as_what_they_become() {
        let message = tests(vec![CodeTest::default(); 100_000]);
        assert!(message.len() < 210_000);
        let found = scanned(VERIFY_ONE, &message, 1000).unwrap();
        assert!(found >= 100_000 * size_of::<CodeTest>() as u64, "{found}");
    }

    #[test]
    fn a_message_is_found_to_be_the_same_wherever_its_pieces_end() {
        let test = CodeTest { kind: 1, input: "1 2 3\n".repeat(50), output: "6".to_owned() };
        let message = tests(vec![test; 7]);
        let whole = scanned(VERIFY_ONE, &message, message.len()).unwrap();
        assert!(whole > 7 * 300 && whole < 7 * 1000, "{whole}");
        for piece in [1, 2, 3, 7, 64, 1000] {
            assert_eq!(scanned(VERIFY_ONE, &message, piece), Ok(whole), "{piece}");
        }
    }

    #[test]
    fn lists_of_numbers_count_by_their_elements() {
        let segment = Segment {
            source: 1,
            token_ids: vec![5; 10_000],
            log_probabilities: vec![-1.0; 10_000],
            policy_version: Some(3),
        };
        let sample = TrainSample { sample_id: "s".to_owned(), segments: vec![segment], ..TrainSample::default() };
        let group = TrainGroup { samples: vec![sample; 4], ..TrainGroup::default() };
        let message = TrainRequest::from(group).encode_to_vec();
        let found = scanned("evenkeel.v1.Learner/Train", &message, 4096).unwrap();
        // Ids and log-probabilities of four bytes each, and as much to grow.
        assert!((640_000..660_000).contains(&found), "{found}");
    }

    #[test]
    fn what_no_decoder_would_read_is_broken() {
        let broken: [&[u8]; 6] = [
            // A message within it is longer than it is.
            &[0x0a, 5, 0],
            // A number without an end.
            &[0xff; 12],
            // Types of fields that there are not.
            &[0x0e, 0],
            &[0x0f, 0],
            // A group ends that never began.
            &[0x0c],
            // A field longer than anything.
            &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        ];
        for bytes in broken {
            assert_eq!(scanned(VERIFY_ONE, bytes, 64), Err(Broken), "{bytes:?}");
        }
    }

    #[test]
    fn groups_and_unknown_fields_hide_nothing_behind_them() {
        let unknown: [&[u8]; 3] =
            // A group with a text in it that is no message, an unknown text, an unknown number.
            [&[0xa3, 0x06, 0x0a, 2, 0xff, 0xff, 0xa4, 0x06], &[0xa2, 0x06, 3, 1, 2, 3], &[0xa0, 0x06, 0x80, 1]];
        let message = tests(vec![CodeTest::default(); 100]);
        let plain = scanned(VERIFY_ONE, &message, 64).unwrap();
        for unknown in unknown {
            let message = [unknown, &message].concat();
            assert!(VerifyOneRequest::decode(&*message).is_ok());
            assert_eq!(scanned(VERIFY_ONE, &message, 3), Ok(plain));
        }
    }
}
