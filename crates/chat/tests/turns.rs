//! What stands between two turns, in tokens: with templates of our own and, where they are, with published ones.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

mod injections;

use injections::{CHATML, STYLES, Style};

use evenkeel_chat::{
    ChatTemplate, Message, Observation, PastTurn, Prompt, PromptRenderer, PromptSettings, TemplateArguments,
    TemplateValue, ToolsIn, TurnRenderer, TurnSettings,
};
use evenkeel_model_folder::{ChatTemplates, Folder, SpecialTokens, Tokenizer};
use evenkeel_testkit::{Trial, outside, run, test};
use serde_json::{Value, json};

/// Says who spoke, lists tools in the system message, and puts results of tools into messages of the user.
const TOOLS: &str = "{% if tools %}<|im_start|>system\n\
    {{ messages[0].content if messages[0].role == 'system' else '' }}\n{{ tools | tojson }}<|im_end|>\n\
    {% endif %}{% for m in messages if m.role != 'system' or not tools %}{% if m.role == 'tool' %}<|im_start|>user\n\
    <tool_response>\n{{ m.content }}\n</tool_response><|im_end|>\n\
    {% else %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>\n\
    {{ c.function | tojson }}\n</tool_call>{% endfor %}<|im_end|>\n\
    {% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// A chat template without a place for tools.
const PLAIN: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
    {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

fn golden() -> Folder {
    Folder::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden"))
}

fn prompts(template: &str) -> PromptRenderer {
    with_tokenizer(template, Tokenizer::require(&golden()).unwrap())
}

fn with_tokenizer(template: &str, tokenizer: Tokenizer) -> PromptRenderer {
    let templates = ChatTemplates { default: Some(template.to_owned()), named: BTreeMap::new() };
    let template = ChatTemplate::new(templates, SpecialTokens::default()).unwrap();
    PromptRenderer::new(Some(Arc::new(template)), Arc::new(tokenizer), PromptSettings::default()).unwrap()
}

/// The tokenizer of the goldens, with other special tokens.
fn tokenizer_with(tokens: &[&str]) -> Tokenizer {
    let text = std::fs::read_to_string(golden().path().join("tokenizer.json")).unwrap();
    let mut file: Value = serde_json::from_str(&text).unwrap();
    let token = |(id, content): (u32, &&str)| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true})
    };
    file["added_tokens"] = (256..).zip(tokens).map(token).collect();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tokenizer.json"), file.to_string()).unwrap();
    Tokenizer::require(&Folder::new(folder.path())).unwrap()
}

fn published(folder: &Path, arguments: Value) -> PromptRenderer {
    let folder = Folder::new(folder);
    let template = ChatTemplate::read(&folder).unwrap().map(Arc::new);
    let tokenizer = Arc::new(Tokenizer::require(&folder).unwrap());
    let template_arguments = arguments.as_object().unwrap().clone();
    PromptRenderer::new(template, tokenizer, PromptSettings { template_arguments, ..PromptSettings::default() })
        .unwrap()
}

fn settings() -> TurnSettings {
    let parameters = json!({"type": "object", "properties": {"expression": {"type": "string"}}});
    let function = json!({"name": "calculator", "description": "computes", "parameters": parameters});
    TurnSettings {
        system_prompt: "Compute with the tool.".to_owned(),
        tools: vec![json!({"type": "function", "function": function})],
        tools_in: ToolsIn::Template,
        user_speaks: false,
        keeps_turns: false,
        is_agent: false,
    }
}

fn refused(prompts: &PromptRenderer, settings: &TurnSettings) -> String {
    TurnRenderer::new(prompts, settings).unwrap_err().to_string()
}

fn result(content: &str) -> Observation<'_> {
    Observation::Tool { id: "call_1_1", name: "calculator", content }
}

/// Prompt, sampled turn and what stands between, token by token, against the rendering of the whole.
fn is_the_rendering(prompts: &PromptRenderer, folder: &Folder, arguments: Value, turn: Value, sampled: &str) {
    let renderer = TurnRenderer::new(prompts, &settings()).unwrap();
    let tokenizer = Tokenizer::require(folder).unwrap();
    for content in ["56088", "error: é\n\n x", "<|im_end |> not an end", ""] {
        let mut ids = renderer.prompts().render(&Prompt::Text("123 * 456?".into())).unwrap().token_ids;
        ids.extend(tokenizer.encode(sampled, false).unwrap());
        ids.extend(renderer.between(&[result(content), result("second")]).unwrap());
        let mut messages = vec![
            json!({"role": "system", "content": "Compute with the tool."}),
            json!({"role": "user", "content": "123 * 456?"}),
            turn.clone(),
        ];
        let tool = |content: &str| json!({"role": "tool", "content": content, "tool_call_id": "call_1_1", "name": "calculator"});
        messages.extend([tool(content), tool("second")]);
        let mut all = arguments.as_object().unwrap().clone();
        all.insert("tools".to_owned(), Value::from(settings().tools));
        all.insert("add_generation_prompt".to_owned(), Value::from(true));
        let template = ChatTemplate::read(folder).unwrap();
        let text = match template {
            Some(template) => template
                .render(
                    &TemplateValue::from(&Value::from(messages)),
                    &TemplateArguments::new(&TemplateValue::from(&all)).unwrap(),
                )
                .unwrap(),
            None => panic!("a template"),
        };
        assert_eq!(tokenizer.decode(&ids, false).unwrap(), text);
        assert_eq!(ids, tokenizer.encode(&text, false).unwrap(), "{content:?}");
    }
}

fn where_a_template_writes_more_with_tools_so_does_what_is_added() {
    let template = TOOLS
        .replace("<|im_start|>assistant\n{% endif %}", "<|im_start|>assistant\n{% if tools %}+{% endif %}{% endif %}");
    let renderer = TurnRenderer::new(&prompts(&template), &settings()).unwrap();
    let between = renderer.between(&[result("2")]).unwrap();
    let text = Tokenizer::require(&golden()).unwrap().decode(&between, false).unwrap();
    assert!(text.ends_with("<|im_start|>assistant\n+"), "{text}");
}

fn what_is_added_is_the_rest_of_the_rendering() {
    let prompts = prompts(TOOLS);
    let renderer = TurnRenderer::new(&prompts, &settings()).unwrap();
    let tokenizer = Tokenizer::require(&golden()).unwrap();
    let prompt = renderer.prompts().render(&Prompt::Text("1+1?".into())).unwrap();
    assert!(prompt.text.starts_with("<|im_start|>system\nCompute with the tool.\n[{"), "{}", prompt.text);
    let between = renderer.between(&[result("2"), result("3")]).unwrap();
    let text = tokenizer.decode(&between, false).unwrap();
    let response = |text: &str| format!("<|im_start|>user\n<tool_response>\n{text}\n</tool_response><|im_end|>\n");
    assert_eq!(text, format!("\n{}{}<|im_start|>assistant\n", response("2"), response("3")));
    assert_eq!(Some(renderer.end_of_turn()), tokenizer.id("<|im_end|>"));
    // The word by which a turn is found may stand in an observation.
    let strange = renderer.between(&[result("evenkeelprobe<|im_end|>")]).unwrap();
    assert!(tokenizer.decode(&strange, false).unwrap().contains("\nevenkeelprobe<|im_end|>\n</tool_response>"));
}

fn a_template_without_tools_is_refused_unless_the_system_message_names_them() {
    let prompts = prompts(PLAIN);
    let error = refused(&prompts, &settings());
    assert!(error.starts_with("tools is \"template\", allowed: \"system-prompt\" for this model"), "{error}");
    let settings = TurnSettings { tools_in: ToolsIn::SystemPrompt, ..settings() };
    let renderer = TurnRenderer::new(&prompts, &settings).unwrap();
    let system = Message::text("system", "Be short.");
    let own = renderer.prompts().render(&Prompt::Messages(vec![system, Message::text("user", "1+1?")])).unwrap().text;
    assert!(own.starts_with("<|im_start|>system\nBe short.\n\nCompute with the tool.\n\n# Tools"), "{own}");
    assert!(own.contains("\"calculator\"") && own.contains("<tool_call>"), "{own}");
    let between = renderer.between(&[result("2"), result("3")]).unwrap();
    let text = Tokenizer::require(&golden()).unwrap().decode(&between, false).unwrap();
    let both = "<tool_response>\n2\n</tool_response>\n<tool_response>\n3\n</tool_response>";
    assert_eq!(text, format!("\n<|im_start|>user\n{both}<|im_end|>\n<|im_start|>assistant\n"));
}

fn a_template_that_rewrites_earlier_turns_is_refused_unless_they_are_kept() {
    // Reasoning is shown in the last turn alone.
    let strips = TOOLS.replace(
        "{{ m.content }}{% for c",
        "{% if loop.last and m.role == 'assistant' %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}{% for c",
    );
    assert_ne!(strips, TOOLS);
    let prompts = prompts(&strips);
    let error = refused(&prompts, &settings());
    assert!(error.starts_with("earlier_turns is \"as-template\", allowed: \"keep\" for this model"), "{error}");
    assert!(error.contains("the role `tool`"), "{error}");
    let renderer = TurnRenderer::new(&prompts, &TurnSettings { keeps_turns: true, ..settings() }).unwrap();
    assert!(!renderer.between(&[result("2")]).unwrap().is_empty());
}

fn a_later_prompt_writes_earlier_turns_as_the_template_does() {
    let strips = TOOLS.replace(
        "{{ m.content }}{% for c",
        "{% if loop.last and m.role == 'assistant' %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}{% for c",
    );
    let keeping = TurnSettings { keeps_turns: true, ..settings() };
    let tokenizer = Tokenizer::require(&golden()).unwrap();
    let turn = || PastTurn {
        reasoning: "Hm.",
        content: "I compute.",
        calls: vec![("call_1_1", "calculator", json!({"expression": "1+1"}))],
        said: "I compute. <tool_call>odd</tool_call>",
        observations: vec![result("2")],
    };
    let later = |template: &str, settings: &TurnSettings, turns: &[PastTurn<'_>]| {
        let renderer = TurnRenderer::new(&prompts(template), settings).unwrap();
        let ids = renderer.whole_prompt(&Prompt::Text("1+1?".into()), Some(" Now."), &[], turns).unwrap();
        tokenizer.decode(&ids, false).unwrap()
    };
    let text = later(&strips, &keeping, &[turn()]);
    let call = "<tool_call>\n{\"name\": \"calculator\", \"arguments\": {\"expression\": \"1+1\"}}\n</tool_call>";
    assert!(
        text.contains(&format!(
            "<|im_start|>user\n1+1? Now.<|im_end|>\n<|im_start|>assistant\nI compute.{call}<|im_end|>\n"
        )),
        "{text}"
    );
    assert!(text.ends_with("<tool_response>\n2\n</tool_response><|im_end|>\n<|im_start|>assistant\n"), "{text}");
    assert!(!text.contains("Hm."), "the template strips it: {text}");
    let none = later(&strips, &keeping, &[]);
    assert!(text.starts_with(&none[..none.len() - "<|im_start|>assistant\n".len()]), "{none}");
    // Where the template knows no tools, a turn is what was written.
    let plain = later(PLAIN, &TurnSettings { tools_in: ToolsIn::SystemPrompt, ..keeping }, &[turn()]);
    assert!(
        plain.contains(
            "<|im_start|>assistant\nI compute. <tool_call>odd</tool_call><|im_end|>\n<|im_start|>user\n\
        <tool_response>\n2\n"
        ),
        "{plain}"
    );
}

fn a_template_whose_observations_depend_on_earlier_turns_is_refused() {
    for (change, words) in [
        (
            ("<tool_response>\n{{ m.content }}", "<tool_response>\n{{ loop.index }} {{ m.content }}"),
            "depend on the turns",
        ),
        (("<tool_response>\n{{ m.content }}", "<tool_response>\nresult"), "leaves out what is observed"),
    ] {
        let (from, to) = change;
        let template = TOOLS.replace(from, to);
        assert_ne!(template, TOOLS);
        let error = refused(&prompts(&template), &settings());
        assert!(error.contains(words) && error.contains("the role `tool`"), "{error}");
    }
    let raises =
        TOOLS.replace("{% if m.role == 'tool' %}", "{% if m.role == 'tool' %}{{ raise_exception('no tools here') }}");
    let error = refused(&prompts(&raises), &settings());
    assert!(error.starts_with("tools is \"template\"") && error.contains("no tools here"), "{error}");
    let endless = TOOLS.replace("<|im_end|>", "END");
    assert!(refused(&prompts(&endless), &settings()).contains("special token"));
}

fn a_user_who_speaks_between_turns_is_checked_as_well() {
    let settings = TurnSettings { user_speaks: true, ..settings() };
    let renderer = TurnRenderer::new(&prompts(TOOLS), &settings).unwrap();
    let between = renderer.between(&[Observation::User("Go on.")]).unwrap();
    let text = Tokenizer::require(&golden()).unwrap().decode(&between, false).unwrap();
    assert_eq!(text, "\n<|im_start|>user\nGo on.<|im_end|>\n<|im_start|>assistant\n");
    let refuses = TOOLS.replace(
        "{% else %}<|im_start|>{{ m.role }}",
        "{% elif m.role == 'user' and loop.index > 3 %}{{ raise_exception('once') }}{% else %}<|im_start|>{{ m.role }}",
    );
    assert_ne!(refuses, TOOLS);
    assert!(TurnRenderer::new(&prompts(&refuses), &settings).is_err());
}

fn qwen25(folder: &Path) {
    let call =
        json!([{"type": "function", "function": {"name": "calculator", "arguments": {"expression": "123*456"}}}]);
    let turn = json!({"role": "assistant", "content": "I compute.", "tool_calls": call});
    let sampled = "I compute.\n<tool_call>\n{\"name\": \"calculator\", \"arguments\": {\"expression\": \"123*456\"}}\n\
        </tool_call><|im_end|>";
    let prompts = published(folder, json!({}));
    let folder = Folder::new(folder);
    is_the_rendering(&prompts, &folder, json!({}), turn, sampled);
    let user = TurnSettings { user_speaks: true, ..settings() };
    assert!(TurnRenderer::new(&prompts, &user).is_ok());
}

fn qwen3(folder: &Path) {
    let call =
        json!([{"type": "function", "function": {"name": "calculator", "arguments": {"expression": "123*456"}}}]);
    let turn = json!({"role": "assistant", "content": "", "reasoning_content": "Use it.", "tool_calls": call});
    let sampled = "<think>\nUse it.\n</think>\n\n<tool_call>\n\
        {\"name\": \"calculator\", \"arguments\": {\"expression\": \"123*456\"}}\n</tool_call><|im_end|>";
    let thinking = published(folder, json!({}));
    is_the_rendering(&thinking, &Folder::new(folder), json!({}), turn, sampled);
    // Another message of the user strips the reasoning before it, and without thinking the empty block of the prompt is
    // stripped.
    let plain = published(folder, json!({"enable_thinking": false}));
    for (prompts, settings) in [(&thinking, TurnSettings { user_speaks: true, ..settings() }), (&plain, settings())] {
        let error = refused(prompts, &settings);
        assert!(error.starts_with("earlier_turns is \"as-template\", allowed: \"keep\""), "{error}");
        assert!(TurnRenderer::new(prompts, &TurnSettings { keeps_turns: true, ..settings }).is_ok());
    }
    // What the template makes of it: reasoning goes before a message of the user, and stays before the result of a
    // tool.
    let settings = TurnSettings { user_speaks: true, keeps_turns: true, ..settings() };
    let renderer = TurnRenderer::new(&thinking, &settings).unwrap();
    let tokenizer = Tokenizer::require(&Folder::new(folder)).unwrap();
    let later = |observation: Observation<'static>| {
        let reasoning = "Use it.";
        let content = "I see.";
        let said = "I see.";
        let turn = PastTurn { reasoning, content, calls: vec![], said, observations: vec![observation] };
        let ids = renderer.whole_prompt(&Prompt::Text("1?".into()), None, &[], &[turn]).unwrap();
        tokenizer.decode(&ids, false).unwrap()
    };
    assert!(later(result("2")).contains("<think>\nUse it.\n</think>\n\nI see.<|im_end|>"));
    let stripped = later(Observation::User("Go on."));
    assert!(
        stripped.contains("<|im_start|>assistant\nI see.<|im_end|>\n<|im_start|>user\nGo on.<|im_end|>"),
        "{stripped}"
    );
}

fn strict(folder: &Path) {
    let prompts = published(folder, json!({}));
    assert!(refused(&prompts, &settings()).contains("does not read `tools`"));
    // The template refuses system messages, and the end of a turn is no special token.
    let settings = TurnSettings { tools_in: ToolsIn::SystemPrompt, ..settings() };
    assert!(refused(&prompts, &settings).starts_with("chat template is "));
}

/// What an agent asks: the sum of its own, a call of its tool, and the result.
fn asked_by_an_agent() -> Vec<Message> {
    let call = json!([{"id": "a", "type": "function", "function": {"name": "add", "arguments": {"a": 1}}}]);
    let messages = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "1+1?"},
        {"role": "assistant", "content": "", "tool_calls": call},
        {"role": "tool", "content": "2", "tool_call_id": "a"},
        {"role": "tool", "content": "3", "tool_call_id": "b"},
    ]);
    let messages = messages.as_array().unwrap().iter().enumerate();
    messages.map(|(index, value)| Message::new(&index.to_string(), value.clone()).unwrap()).collect()
}

fn an_agents_conversation_is_rendered_with_its_own_tools_and_the_turns_since() {
    let agent =
        TurnSettings { tools: vec![], system_prompt: String::new(), user_speaks: true, is_agent: true, ..settings() };
    let tools = [json!({"type": "function", "function": {"name": "add"}})];
    let tokenizer = Tokenizer::require(&golden()).unwrap();
    let render = |renderer: &TurnRenderer, tools: &[Value], turns: &[PastTurn<'_>]| {
        let ids = renderer.conversation(&asked_by_an_agent(), tools, turns);
        ids.map(|ids| tokenizer.decode(&ids, false).unwrap()).map_err(|error| error.to_string())
    };
    let with = TurnRenderer::new(&prompts(TOOLS), &agent).unwrap();
    let text = render(&with, &tools, &[]).unwrap();
    assert!(text.starts_with("<|im_start|>system\nBe brief.\n[{"), "{text}");
    assert!(text.contains("<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>"), "{text}");
    assert!(text.ends_with("<|im_start|>assistant\n"), "{text}");
    let turn = PastTurn {
        reasoning: "",
        content: "Two.",
        calls: vec![],
        said: "Two.",
        observations: vec![Observation::User("Sure?")],
    };
    let later = render(&with, &tools, &[turn]).unwrap();
    assert_eq!(later, format!("{text}Two.<|im_end|>\n<|im_start|>user\nSure?<|im_end|>\n<|im_start|>assistant\n"));
    assert!(!with.between(&[result("2")]).unwrap().is_empty(), "results of tools are appended, too");

    // A template without tools takes conversations without them, and others where the system message has the tools.
    let without = TurnRenderer::new(&prompts(PLAIN), &agent).unwrap();
    let error = render(&without, &tools, &[]).unwrap_err();
    assert!(error.contains("turns.tools is \"template\", allowed: \"system-prompt\""), "{error}");
    let told = TurnSettings { tools_in: ToolsIn::SystemPrompt, ..agent };
    let text = render(&TurnRenderer::new(&prompts(PLAIN), &told).unwrap(), &tools, &[]).unwrap();
    let call = "<|im_start|>assistant\n<tool_call>\n{\"name\":\"add\",\"arguments\":{\"a\":1}}\n</tool_call><|im_end|>";
    assert!(text.contains("Be brief.\n\n# Tools") && text.contains(call), "{text}");
    let both = "<|im_start|>user\n<tool_response>\n2\n</tool_response>\n<tool_response>\n3\n</tool_response><|im_end|>";
    assert!(text.contains(both), "{text}");
}

fn a_message_that_the_template_does_not_render_is_refused_and_a_developer_is_the_system() {
    let known = "{% for m in messages if m.role in ['system', 'user', 'assistant'] %}<|im_start|>{{ m.role }}\n\
        {{ m.content | trim }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    let agent = TurnSettings {
        system_prompt: String::new(),
        tools: vec![],
        user_speaks: true,
        is_agent: true,
        tools_in: ToolsIn::SystemPrompt,
        ..settings()
    };
    let tokenizer = Tokenizer::require(&golden()).unwrap();
    let render = |template: &str, messages: &Value, tools: &[Value]| {
        let message = |value: &Value| Message::new("messages", value.clone()).unwrap();
        let messages: Vec<_> = messages.as_array().unwrap().iter().map(message).collect();
        let renderer = TurnRenderer::new(&prompts(template), &agent).unwrap();
        let ids = renderer.conversation(&messages, tools, &[]).map_err(|error| error.to_string())?;
        Ok::<_, String>(tokenizer.decode(&ids, false).unwrap())
    };
    let asked = json!([{"role": "developer", "content": "Be brief.\n"}, {"role": "user", "content": "1+1?"}]);
    let end = "<|im_end|>\n<|im_start|>user\n1+1?<|im_end|>\n<|im_start|>assistant\n";
    assert_eq!(render(known, &asked, &[]).unwrap(), format!("<|im_start|>system\nBe brief.{end}"));
    assert_eq!(render(PLAIN, &asked, &[]).unwrap(), format!("<|im_start|>developer\nBe brief.\n{end}"));
    let told = render(known, &asked, &settings().tools).unwrap();
    assert!(told.starts_with("<|im_start|>system\nBe brief.\n\n\n# Tools"), "the tools are not lost with it: {told}");
    let named = json!([{"role": "user", "content": "1+1?"}, {"role": "function", "name": "f", "content": "two"}]);
    let error = render(known, &named, &[]).unwrap_err();
    assert!(error.ends_with("it leaves out messages[1], of the role `function`"), "{error}");
}

fn what_is_observed_first_follows_the_prompt_or_is_refused() {
    let settings = TurnSettings { tools: vec![], user_speaks: true, ..settings() };
    let tokenizer = Tokenizer::require(&golden()).unwrap();
    let render = |template: &str| {
        let renderer = TurnRenderer::new(&prompts(template), &settings).unwrap();
        let first = [Observation::User("The shelf is empty.")];
        let ids = renderer.whole_prompt(&Prompt::Text("1+1?".into()), Some(" Now."), &first, &[]);
        Ok::<_, String>(tokenizer.decode(&ids.map_err(|error| error.to_string())?, false).unwrap())
    };
    let wanted = "<|im_start|>user\n1+1? Now.<|im_end|>\n<|im_start|>user\nThe shelf is empty.<|im_end|>\n\
        <|im_start|>assistant\n";
    assert!(render(PLAIN).unwrap().ends_with(wanted));
    let alternates = PLAIN.replace(
        "{% for m in messages %}",
        "{% for m in messages %}{% if loop.previtem is defined and loop.previtem.role == m.role %}\
         {{ raise_exception('roles must alternate') }}{% endif %}",
    );
    let error = render(&alternates).unwrap_err();
    assert!(error.contains("roles must alternate"), "{error}");
    let forgets = PLAIN.replace("{% for m in messages %}", "{% for m in messages if 'shelf' not in m.content %}");
    assert!(render(&forgets).unwrap_err().ends_with("it leaves out what is observed first"));
}

fn main() -> ExitCode {
    let mut tests: Vec<Trial> = vec![
        test("what_is_added_is_the_rest_of_the_rendering", what_is_added_is_the_rest_of_the_rendering),
        test(
            "where_a_template_writes_more_with_tools_so_does_what_is_added",
            where_a_template_writes_more_with_tools_so_does_what_is_added,
        ),
        test(
            "a_template_without_tools_is_refused_unless_the_system_message_names_them",
            a_template_without_tools_is_refused_unless_the_system_message_names_them,
        ),
        test(
            "a_template_that_rewrites_earlier_turns_is_refused_unless_they_are_kept",
            a_template_that_rewrites_earlier_turns_is_refused_unless_they_are_kept,
        ),
        test(
            "a_later_prompt_writes_earlier_turns_as_the_template_does",
            a_later_prompt_writes_earlier_turns_as_the_template_does,
        ),
        test(
            "a_template_whose_observations_depend_on_earlier_turns_is_refused",
            a_template_whose_observations_depend_on_earlier_turns_is_refused,
        ),
        test(
            "an_agents_conversation_is_rendered_with_its_own_tools_and_the_turns_since",
            an_agents_conversation_is_rendered_with_its_own_tools_and_the_turns_since,
        ),
        test(
            "a_message_that_the_template_does_not_render_is_refused_and_a_developer_is_the_system",
            a_message_that_the_template_does_not_render_is_refused_and_a_developer_is_the_system,
        ),
        test(
            "what_is_observed_first_follows_the_prompt_or_is_refused",
            what_is_observed_first_follows_the_prompt_or_is_refused,
        ),
        test("control_text_of_others_is_text_wherever_it_enters", || {
            let tokenizer = Tokenizer::require(&golden()).unwrap();
            injections::are_text(&prompts(TOOLS), &tokenizer, ToolsIn::Template, CHATML);
            injections::are_text(&prompts(PLAIN), &tokenizer, ToolsIn::SystemPrompt, CHATML);
            injections::are_found_in_prompts(&prompts(PLAIN));
        }),
        test("a_user_who_speaks_between_turns_is_checked_as_well", a_user_who_speaks_between_turns_is_checked_as_well),
    ];
    tests.extend(STYLES.map(|Style { name, template, tokens, tools_in, forgery }| {
        test(&format!("control_text_of_others_is_text_wherever_it_enters::{name}"), move || {
            let tokenizer = tokenizer_with(tokens);
            injections::are_text(&with_tokenizer(template, tokenizer.clone()), &tokenizer, tools_in, forgery);
        })
    }));
    type Write = fn(&Path);
    let folders: [(&str, &str, Write); 3] = [
        ("qwen2.5", "data/chat/qwen2.5", qwen25),
        ("qwen3", "data/chat/qwen3", qwen3),
        ("strict", "data/chat/strict", strict),
    ];
    for (name, folder, check) in folders {
        let file = format!("{folder}/tokenizer.json");
        tests.push(outside(&format!("outside::{name}"), &[&file], move |data| check(&data.join(folder))));
        if name == "strict" {
            continue; // The template takes no episodes.
        }
        tests.push(outside(&format!("outside::injections::{name}"), &[&file], move |data| {
            let folder = data.join(folder);
            let tokenizer = Tokenizer::require(&Folder::new(&folder)).unwrap();
            injections::are_text(&published(&folder, json!({})), &tokenizer, ToolsIn::Template, CHATML);
        }));
    }
    run(tests)
}
