//! HTML that cannot contain anybody else's markup.

use std::fmt::{Display, Write};

/// A piece of HTML. It consists of markup that is spelled out in a program (`&'static str`) and of escaped text, so
/// that inserting it is safe wherever the text came from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Html(String);

impl Html {
    pub fn new() -> Self {
        Self::default()
    }

    /// Text that is shown as it is.
    pub fn text(text: impl Display) -> Self {
        Self(escape(&text.to_string()))
    }

    /// Markup as a program spells it out.
    pub fn markup(markup: &'static str) -> Self {
        Self(markup.to_owned())
    }

    /// An element with attributes, whose values are escaped, around a content.
    pub fn element(tag: &'static str, attributes: &[(&'static str, &str)], content: impl Into<Self>) -> Self {
        let mut html = format!("<{tag}");
        for (name, value) in attributes {
            let _ = write!(html, " {name}=\"{}\"", escape(value));
        }
        let _ = write!(html, ">{}</{tag}>", content.into().0);
        Self(html)
    }

    /// An element without content, such as `input`.
    pub fn void(tag: &'static str, attributes: &[(&'static str, &str)]) -> Self {
        let attributes: String =
            attributes.iter().map(|(name, value)| format!(" {name}=\"{}\"", escape(value))).collect();
        Self(format!("<{tag}{attributes}>"))
    }

    /// A paragraph of text.
    pub fn paragraph(text: impl Display) -> Self {
        Self::element("p", &[], Self::text(text))
    }

    /// Appends another piece to this one.
    pub fn push(&mut self, other: impl Into<Self>) -> &mut Self {
        self.0.push_str(&other.into().0);
        self
    }

    /// Returns this piece with another one appended.
    #[must_use]
    pub fn with(mut self, other: impl Into<Self>) -> Self {
        self.push(other);
        self
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn into_string(self) -> String {
        self.0
    }

    /// Source that this crate has built and escaped itself.
    pub(crate) fn built(source: String) -> Self {
        Self(source)
    }
}

impl From<&str> for Html {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Html {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl FromIterator<Html> for Html {
    fn from_iter<I: IntoIterator<Item = Html>>(pieces: I) -> Self {
        let mut all = Self::new();
        pieces.into_iter().for_each(|piece| {
            all.push(piece);
        });
        all
    }
}

/// The text with everything escaped that would end a text or an attribute. Control characters that HTML does not allow
/// become `�`.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(character),
            '\r' => {}
            character if character.is_control() => escaped.push('\u{fffd}'),
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_never_becomes_markup() {
        let html = Html::element("p", &[("title", "\"><script>")], "</p><script>alert('1')</script>");
        let expected =
            "<p title=\"&quot;&gt;&lt;script&gt;\">&lt;/p&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;</p>";
        assert_eq!(html.as_str(), expected);
    }

    proptest! {
        #[test]
        fn no_text_has_a_character_of_markup_left(text in any::<String>()) {
            let html = Html::text(&text).into_string();
            let left = html.contains(['<', '>', '"', '\'', '\0', '\u{1b}']);
            prop_assert!(!left);
        }
    }
}
