//! The page around sections.

use crate::html::Html;
use crate::palette;

/// A part of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Anchor of the section within the page: lower-case letters and `-`.
    pub id: &'static str,
    /// Heading above the section; empty for none.
    pub title: String,
    /// Content of the section. A frozen page leaves out a section without content.
    pub body: Html,
}

impl Section {
    pub fn new(id: &'static str, title: impl Into<String>, body: Html) -> Self {
        Self { id, title: title.into(), body }
    }

    /// Heading and content, without the element around them.
    pub fn inner(&self) -> Html {
        let mut inner = Html::new();
        if !self.title.is_empty() && !self.body.is_empty() {
            inner.push(Html::element("h2", &[], self.title.as_str()));
        }
        inner.with(self.body.clone())
    }
}

/// Where a live page gets its parts and its news from: paths of the server that serves it.
#[derive(Debug, Clone, Copy)]
pub struct Live<'a> {
    pub script: &'a str,
    /// The style sheet, which is [`style`].
    pub style: &'a str,
    /// The stream of events.
    pub events: &'a str,
}

/// A page of sections, one below the other.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// Heading of the page, and part of the window's title.
    pub title: String,
    /// A few words above the heading.
    pub kicker: Html,
    pub sections: Vec<Section>,
    pub footer: Html,
}

/// The style sheet of every page.
pub fn style() -> String {
    palette::variables() + include_str!("style.css")
}

impl Page {
    /// One self-contained file without scripts. A browser that reads it loads nothing else.
    pub fn to_document(&self) -> String {
        let policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
        let head = Html::built(format!(
            "<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n<style>\n{}</style>\n",
            style()
        ));
        let sections = self.sections.iter().filter(|section| !section.body.is_empty());
        self.document(&head, &[], sections)
    }

    /// The page as a server delivers it: it follows a stream of events. Sections without content keep their places.
    pub fn to_live_document(&self, live: Live<'_>) -> String {
        let head = Html::element("link", &[("rel", "icon"), ("href", "data:,")], Html::new());
        let style = Html::built(format!("<link rel=\"stylesheet\" href=\"{}\">\n", crate::html::escape(live.style)));
        let script = Html::element("script", &[("src", live.script), ("defer", "")], Html::new());
        self.document(&head.with(style).with(script), &[("data-events", live.events)], self.sections.iter())
    }

    fn document<'a>(
        &'a self,
        head: &Html,
        body: &[(&'static str, &str)],
        sections: impl Iterator<Item = &'a Section>,
    ) -> String {
        let sections: Vec<&Section> = sections.collect();
        let contents = contents(&sections);
        let content = sections.iter().map(|section| Html::element("section", &[("id", section.id)], section.inner()));
        let header = Html::element("p", &[("class", "soft")], self.kicker.clone()).with(Html::element(
            "h1",
            &[],
            self.title.as_str(),
        ));
        let footer = Html::element("footer", &[], self.footer.clone());
        let main = Html::element("main", &[], header.with(contents).with(content.collect::<Html>()).with(footer));
        let body = Html::element("body", body, main);
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{} · Evenkeel</title>\n\
             {}</head>\n{}\n</html>\n",
            crate::html::escape(&self.title),
            head.as_str(),
            body.as_str()
        )
    }
}

/// Links to the sections that have a heading; nothing where there are few.
fn contents(sections: &[&Section]) -> Html {
    let titled: Vec<_> = sections.iter().filter(|section| !section.title.is_empty()).collect();
    if titled.len() < 4 {
        return Html::new();
    }
    let link = |section: &&&Section| {
        let target = format!("#{}", section.id);
        Html::element("li", &[], Html::element("a", &[("href", target.as_str())], section.title.as_str()))
    };
    let list = Html::element("ul", &[], titled.iter().map(link).collect::<Html>());
    Html::element("nav", &[("aria-label", "Contents"), ("class", "contents")], list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::Chart;
    use crate::figure::{Figure, figures};
    use crate::series::{Point, Series, Style};

    fn page(sections: Vec<Section>) -> Page {
        Page { title: "a<script>b".into(), kicker: Html::text("run"), sections, footer: Html::text("seed 1") }
    }

    #[test]
    fn a_page_is_one_file_without_scripts() {
        let html = page(vec![
            Section::new("one", "One", Html::paragraph("<script>")),
            Section::new("two", "Two", Html::new()),
        ])
        .to_document();
        assert!(!html.contains("<script") && !html.contains("http:") && !html.contains("https:"), "{html}");
        assert!(html.contains("<section id=\"one\"><h2>One</h2>") && !html.contains("id=\"two\""));
        assert!(html.contains("default-src 'none'") && html.contains("a&lt;script&gt;b"));
    }

    #[test]
    fn a_long_page_begins_with_its_contents() {
        let section = |id, title: &str| Section::new(id, title, Html::paragraph("x"));
        let few = page(vec![section("one", "One"), section("two", "Two")]).to_document();
        assert!(!few.contains("<nav"));
        let sections = ["a", "b", "c", "d"].map(|id| section(id, &id.to_uppercase()));
        let long = page(sections.into_iter().chain([section("e", ""), Section::new("f", "F", Html::new())]).collect());
        let html = long.to_document();
        assert!(
            html.contains("<li><a href=\"#d\">D</a></li></ul></nav>"),
            "nothing without a heading or content: {html}"
        );
    }

    #[test]
    fn a_live_page_has_the_same_sections_and_nothing_inline() {
        let live = Live { script: "/page.js", style: "/page.css", events: "/run/a/events" };
        let html =
            page(vec![Section::new("one", "One", Html::paragraph("x")), Section::new("two", "Two", Html::new())])
                .to_live_document(live);
        assert!(html.contains("<script src=\"/page.js\" defer=\"\"></script>") && !html.contains("<style"), "{html}");
        assert!(html.contains("data-events=\"/run/a/events\"") && html.contains("<section id=\"two\"></section>"));
        assert!(!html.contains(" style=") && !html.contains(" onclick"));
    }

    #[test]
    fn five_hundred_steps_of_twelve_runs_weigh_less_than_five_megabytes() {
        // As many charts as a comparison has, with values that compress as badly as real ones.
        let charts = (0..16).map(|chart| {
            let runs = (0..12_u32).map(|run| {
                let points = (0..500_u32).map(|step| {
                    let y = f64::from((step * 7919 + run * 104_729 + chart) % 1009) / 1009.0;
                    Point::new(f64::from(step + 1), y)
                });
                Series::new(format!("run {run}"), Style::Line, points)
            });
            Figure::from(runs.fold(Chart::new("Reward", "mean raw reward"), Chart::with))
        });
        let html = page(vec![Section::new("curves", "Curves", figures(charts))]).to_document();
        assert!(html.len() < 5_000_000, "{} bytes", html.len());
    }
}
