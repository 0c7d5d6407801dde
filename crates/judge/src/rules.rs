//! What decides a verdict besides the question, and the digest under which it is recorded.

use evenkeel_host::FieldsDigest;

use crate::question::Question;
use crate::reply::Parser;
use crate::rubric::Rubric;
use crate::settings::SamplingSettings;
use crate::template::Template;

/// Everything besides the question that decides a verdict.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) model: String,
    pub(crate) rubric_text: String,
    pub(crate) rubric: Rubric,
    pub(crate) template: Template,
    pub(crate) parser: Parser,
    pub(crate) sampling: SamplingSettings,
}

impl Rules {
    /// The digest of rubric, template, parser, sampling settings, model, prompt, reference and answer. The endpoint is
    /// not a part of it: the same model may be served elsewhere.
    pub(crate) fn digest(&self, question: &Question) -> String {
        let mut digest = FieldsDigest::new();
        digest.text("evenkeel judge 2").text(&self.rubric_text);
        for text in self.template.texts() {
            digest.text(text);
        }
        digest.text(self.parser.name()).text(&self.sampling.identity()).text(&self.model).text(&question.prompt);
        digest.byte(u8::from(question.reference.is_some())).text(question.reference.as_deref().unwrap_or_default());
        digest.text(&question.answer);
        digest.finish_named()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUBRIC: &str = "[[criteria]]\nname = \"right\"\nweight = 1.0\ndescription = \"equals the reference\"";

    fn rules() -> Rules {
        Rules {
            model: "judge".to_owned(),
            rubric_text: RUBRIC.to_owned(),
            rubric: Rubric::parse(RUBRIC).unwrap(),
            template: Template::default(),
            parser: Parser::Json,
            sampling: SamplingSettings::default(),
        }
    }

    fn question() -> Question {
        Question { prompt: "2 + 3?".to_owned(), reference: Some("5".to_owned()), answer: "five".to_owned() }
    }

    #[test]
    fn whatever_decides_a_verdict_is_in_its_digest() {
        let changed_rules: [fn(&mut Rules); 7] = [
            |rules| rules.model.push('2'),
            |rules| rules.rubric_text.push(' '),
            |rules| rules.template = Template::parse("system = '{criteria} {format}'\nuser = '{answer}'").unwrap(),
            |rules| rules.parser = Parser::LastLine,
            |rules| rules.sampling.temperature = 0.5,
            |rules| rules.sampling.seed = Some(0),
            |rules| rules.sampling.max_tokens += 1,
        ];
        let changed_questions: [fn(&mut Question); 5] = [
            |question| question.prompt.push(' '),
            |question| question.reference = None,
            |question| question.reference = Some(String::new()),
            |question| question.reference = Some("6".to_owned()),
            |question| question.answer.push('.'),
        ];
        let mut digests = vec![rules().digest(&question())];
        assert_eq!(digests[0], rules().digest(&question()));
        digests.extend(changed_rules.map(|change| {
            let mut rules = rules();
            change(&mut rules);
            rules.digest(&question())
        }));
        digests.extend(changed_questions.map(|change| {
            let mut question = question();
            change(&mut question);
            rules().digest(&question)
        }));
        let count = digests.len();
        digests.sort();
        digests.dedup();
        assert_eq!(digests.len(), count);
    }
}
