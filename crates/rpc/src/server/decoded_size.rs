//! Estimates the decoded size of a message from its bytes as they arrive, before it is decoded.

use super::schema::{Field, MessageIndex, Schema};

const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const LENGTH_DELIMITED: u64 = 2;
const START_GROUP: u64 = 3;
const END_GROUP: u64 = 4;
const FIXED_32: u64 = 5;

/// The bytes are not a valid message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MalformedMessage;

/// Scans the messages of a stream one after the other.
#[derive(Debug)]
pub(super) struct SizeScanner {
    schema: &'static Schema,
    request: MessageIndex,
    /// The nested messages at the current position, innermost last, each with its end.
    nested: Vec<(MessageIndex, u64)>,
    /// Open groups. Our messages have none, so their content is skipped.
    groups: usize,
    state: ParserState,
    /// Bytes of the message consumed so far.
    position: u64,
    decoded: u64,
}

/// What the next byte belongs to.
#[derive(Debug, Clone, Copy)]
enum ParserState {
    /// The key of a field.
    Key(Varint),
    /// A number as a varint.
    Number(Varint),
    /// The length of a field.
    Length(Varint, Option<Field>),
    /// Number of bytes to skip.
    Skip(u64),
}

/// A partly read varint.
#[derive(Debug, Clone, Copy, Default)]
struct Varint {
    value: u64,
    bits: u32,
}

impl Varint {
    /// Consumes a byte; returns the number once it is complete.
    fn advance(&mut self, byte: u8) -> Result<Option<u64>, MalformedMessage> {
        if self.bits >= 64 {
            return Err(MalformedMessage);
        }
        self.value |= u64::from(byte & 0x7f) << self.bits;
        self.bits += 7;
        Ok((byte & 0x80 == 0).then_some(self.value))
    }
}

impl SizeScanner {
    /// For the requests of a method. `None` if the method is unknown.
    pub(super) fn of(method: &str) -> Option<Self> {
        let schema = Schema::known();
        let request = schema.request(method)?;
        let state = ParserState::Key(Varint::default());
        Some(Self { schema, request, nested: Vec::new(), groups: 0, state, position: 0, decoded: 0 })
    }

    /// Starts a message of that length in bytes.
    pub(super) fn begin(&mut self, length: u64) {
        self.nested.clear();
        self.nested.push((self.request, length));
        self.state = ParserState::Key(Varint::default());
        (self.groups, self.position, self.decoded) = (0, 0, 0);
    }

    /// Decoded size so far in bytes, without the message itself.
    pub(super) fn decoded(&self) -> u64 {
        self.decoded
    }

    /// Consumes bytes of the message.
    pub(super) fn advance(&mut self, mut bytes: &[u8]) -> Result<(), MalformedMessage> {
        while let Some((&first, rest)) = bytes.split_first() {
            if let ParserState::Skip(left) = self.state {
                let length = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                (self.position, bytes) = (self.position + length as u64, &bytes[length..]);
                self.state = ParserState::Skip(left - length as u64);
            } else {
                (self.position, bytes) = (self.position + 1, rest);
                self.state = self.byte(first)?;
            }
            if matches!(self.state, ParserState::Skip(0)) {
                self.state = ParserState::Key(Varint::default());
            }
            if matches!(self.state, ParserState::Key(Varint { bits: 0, .. })) {
                while self.nested.len() > 1 && self.nested.last().is_some_and(|(_, end)| *end <= self.position) {
                    self.nested.pop();
                }
            }
        }
        Ok(())
    }

    fn byte(&mut self, byte: u8) -> Result<ParserState, MalformedMessage> {
        match self.state {
            ParserState::Key(mut key) => match key.advance(byte)? {
                Some(key) => self.field(key),
                None => Ok(ParserState::Key(key)),
            },
            ParserState::Number(mut number) => Ok(match number.advance(byte)? {
                Some(_) => ParserState::Skip(0),
                None => ParserState::Number(number),
            }),
            ParserState::Length(mut length, field) => match length.advance(byte)? {
                Some(length) => self.enter(length, field),
                None => Ok(ParserState::Length(length, field)),
            },
            ParserState::Skip(_) => Err(MalformedMessage),
        }
    }

    fn field(&mut self, key: u64) -> Result<ParserState, MalformedMessage> {
        let &(of, _) = self.nested.last().ok_or(MalformedMessage)?;
        let number = u32::try_from(key >> 3).map_err(|_| MalformedMessage)?;
        let field = if self.groups == 0 { self.schema.field(of, number) } else { None };
        if let (VARINT | FIXED_64 | FIXED_32, Some(Field::Numbers { element, .. })) = (key & 7, field) {
            self.decoded = self.decoded.saturating_add(element);
        }
        match key & 7 {
            VARINT => return Ok(ParserState::Number(Varint::default())),
            FIXED_64 => return Ok(ParserState::Skip(8)),
            FIXED_32 => return Ok(ParserState::Skip(4)),
            LENGTH_DELIMITED => return Ok(ParserState::Length(Varint::default(), field)),
            START_GROUP => self.groups += 1,
            END_GROUP => self.groups = self.groups.checked_sub(1).ok_or(MalformedMessage)?,
            _ => return Err(MalformedMessage),
        }
        Ok(ParserState::Skip(0))
    }

    /// Starts a field of this length.
    fn enter(&mut self, length: u64, field: Option<Field>) -> Result<ParserState, MalformedMessage> {
        let &(_, enclosing_end) = self.nested.last().ok_or(MalformedMessage)?;
        let end = self.position.checked_add(length).filter(|end| *end <= enclosing_end).ok_or(MalformedMessage)?;
        let (added, next) = match field {
            None => (0, ParserState::Skip(length)),
            Some(Field::Text { element }) => (element + length, ParserState::Skip(length)),
            Some(Field::Numbers { element, written }) => {
                ((length / written).saturating_mul(element), ParserState::Skip(length))
            }
            Some(Field::Message { of, element }) => {
                self.nested.push((of, end));
                (element, ParserState::Skip(0))
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

    /// Decoded size of a message that arrives in pieces of `piece` bytes.
    fn scanned(method: &str, message: &[u8], piece: usize) -> Result<u64, MalformedMessage> {
        let mut scan = SizeScanner::of(method).unwrap();
        scan.begin(message.len() as u64);
        message.chunks(piece).try_for_each(|piece| scan.advance(piece))?;
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
            ..Segment::default()
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
            // A number that never ends.
            &[0xff; 12],
            // Field types that do not exist.
            &[0x0e, 0],
            &[0x0f, 0],
            // The end of a group that never began.
            &[0x0c],
            // A field longer than anything.
            &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        ];
        for bytes in broken {
            assert_eq!(scanned(VERIFY_ONE, bytes, 64), Err(MalformedMessage), "{bytes:?}");
        }
    }

    #[test]
    fn groups_and_unknown_fields_hide_nothing_behind_them() {
        let unknown: [&[u8]; 3] =
            // A group with a text in it that is not a message, an unknown text, an unknown number.
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
