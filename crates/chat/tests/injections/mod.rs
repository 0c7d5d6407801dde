//! What an environment, a tool or an agent says never becomes a control token, wherever it enters a conversation.

use evenkeel_chat::{Message, Observation, PastTurn, Prompt, PromptRenderer, ToolsIn, TurnRenderer, TurnSettings};
use evenkeel_model_folder::Tokenizer;
use serde_json::{Value, json};

mod styles;

pub(crate) use styles::{CHATML, Forgery, STYLES, Style};

const HARMLESS: &str = "no";

/// The places where a text of others enters, each with the ids of a conversation that has the text there.
fn places(prompts: &PromptRenderer, tools_in: ToolsIn, text: &str) -> Vec<(&'static str, Vec<u32>)> {
    let tool = |name: &str, describes: &str, property: &str| {
        let parameters = json!({"type": "object", "properties": {property: {"type": "string"}}});
        json!({"type": "function", "function": {"name": name, "description": describes, "parameters": parameters}})
    };
    let plain = tool("add", "Adds.", "a");
    let settings = |system: &str, tool: &Value| TurnSettings {
        system_prompt: system.to_owned(),
        tools: vec![tool.clone()],
        tools_in,
        user_speaks: true,
        keeps_turns: true,
        is_agent: false,
    };
    let renderer = |system: &str, tool: &Value| TurnRenderer::new(prompts, &settings(system, tool)).unwrap();
    let usual = renderer("Be brief.", &plain);
    let asked = Prompt::Text("1+1?".to_owned());
    let first = |renderer: &TurnRenderer| renderer.prompts().render(&asked).unwrap().token_ids;
    let result = Observation::Tool { id: "call_1_1", name: "add", content: text };
    let turn = |observation| PastTurn {
        reasoning: "",
        content: "I add.",
        calls: vec![("call_1_1", "add", json!({"a": "1"}))],
        said: "I add.",
        observations: vec![observation],
    };
    let mut places = vec![
        ("the result of a tool", usual.between(&[result]).unwrap()),
        (
            "one of two results",
            usual.between(&[result, Observation::Tool { id: "b", name: "add", content: "2" }]).unwrap(),
        ),
        ("what a user says", usual.between(&[Observation::User(text)]).unwrap()),
        ("a first observation", usual.whole_prompt(&asked, None, &[Observation::User(text)], &[]).unwrap()),
        ("a result before", usual.whole_prompt(&asked, None, &[], &[turn(result)]).unwrap()),
        ("words of the environment", first(&renderer(text, &plain))),
        ("the description of a tool", first(&renderer("", &tool("add", text, "a")))),
        ("the name of a tool", first(&renderer("", &tool(text, "Adds.", "a")))),
        ("the name of a parameter", first(&renderer("", &tool("add", "Adds.", text)))),
    ];
    let agent = TurnSettings { tools: vec![], is_agent: true, ..settings("", &plain) };
    let agent = TurnRenderer::new(prompts, &agent).unwrap();
    let call = json!([{"id": "a", "type": "function", "function": {"name": "add", "arguments": {"a": 1}}}]);
    for (role, place) in [
        ("system", "a system message of an agent"),
        ("user", "a message of an agent"),
        ("tool", "a result that an agent tells"),
    ] {
        let mut messages = vec![
            json!({"role": "system", "content": "Be brief."}),
            json!({"role": "user", "content": "1+1?"}),
            json!({"role": "assistant", "content": "", "tool_calls": call.clone()}),
            json!({"role": "tool", "content": "2", "tool_call_id": "a"}),
        ];
        let said = messages.iter_mut().find(|message| message["role"] == role).unwrap();
        said["content"] = text.into();
        let messages: Vec<Message> =
            messages.into_iter().map(|message| Message::new("messages", message).unwrap()).collect();
        places.push((place, agent.conversation(&messages, std::slice::from_ref(&plain), &[]).unwrap()));
    }
    let asked = [Message::text("user", "1+1?")];
    for (place, told) in [
        ("the description of an agent's tool", tool("add", text, "a")),
        ("the name of an agent's tool", tool(text, "Adds.", "a")),
    ] {
        places.push((place, agent.conversation(&asked, &[told], &[]).unwrap()));
    }
    places
}

/// Forged text changes nothing in the control tokens of a conversation, and is there as it was written.
pub(crate) fn are_text(prompts: &PromptRenderer, tokenizer: &Tokenizer, tools_in: ToolsIn, forgery: Forgery) {
    let Forgery { text: forged_text, turn } = forgery;
    assert!(tokenizer.encode(forged_text, false).unwrap().iter().any(|id| tokenizer.is_special(*id)));
    let tags = ["</think>", "<tool_call>", "</tool_call>", "</tool_response>"];
    let is_control = |id: &&u32| tokenizer.is_special(**id) || tags.iter().any(|tag| tokenizer.id(tag) == Some(**id));
    let control = |ids: &[u32]| ids.iter().filter(is_control).copied().collect::<Vec<_>>();
    let harmless = places(prompts, tools_in, HARMLESS);
    for ((place, forged), (_, harmless)) in places(prompts, tools_in, forged_text).into_iter().zip(harmless) {
        assert_eq!(control(&forged), control(&harmless), "{place}");
        let text = tokenizer.decode(&forged, false).unwrap();
        let as_json = Value::from(forged_text).to_string();
        assert!(text.contains(forged_text) || text.contains(as_json.trim_matches('"')), "{place}: {text}");
    }
    // The model's own words keep what a model writes, and forge no turn.
    let answer = |text: &str| {
        let agent = TurnSettings {
            system_prompt: String::new(),
            tools: vec![],
            tools_in,
            user_speaks: true,
            keeps_turns: true,
            is_agent: true,
        };
        let messages = [("user", "1+1?"), ("assistant", text), ("user", "Sure?")];
        let messages = messages.map(|(role, text)| Message::text(role, text));
        control(&TurnRenderer::new(prompts, &agent).unwrap().conversation(&messages, &[], &[]).unwrap())
    };
    assert_eq!(answer(&format!("2{turn}")), answer("2"));
    let call = tokenizer.id("<tool_call>").filter(|id| !tokenizer.is_special(*id));
    assert_eq!(call.is_some_and(|id| answer("2<tool_call>").contains(&id)), call.is_some());
}

/// Prompts of the user's own keep control tokens, as transformers does, and can be looked through for them.
pub(crate) fn are_found_in_prompts(prompts: &PromptRenderer) {
    let spells = |prompt: Prompt| prompts.control_text(&prompt).unwrap();
    assert_eq!(spells(Prompt::Text("1+1?<|im_end|>".to_owned())).as_deref(), Some("1+1?<|im_end|>"));
    assert_eq!(spells(Prompt::Text("1+1?".to_owned())), None);
    let answered = |text: &str| Prompt::Messages(vec![Message::text("user", "?"), Message::text("assistant", text)]);
    assert_eq!(spells(answered("2")), None);
    assert!(spells(answered("<|im_end|>")).is_some());
}
