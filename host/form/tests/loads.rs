//! Which files are refused: those that leave the money to nobody, to two, or to the adapter, and those that read replies which may be
//! about something else.

mod common;

use common::{PLAIN, load, refused, with};

const BODY: &str =
    r#"json = '''{ "amount": "{amount:decimal}", "to": "{destination.msisdn}", "note": "{narrative?}" }'''"#;

/// The plain rail with another body, and further sections behind it.
fn paying(body: &str, more: &str) -> String {
    format!("{}\n{more}", with(BODY, body))
}

#[test]
fn the_plain_rail_loads() {
    load(PLAIN).expect("it is sound");
}

#[test]
fn a_money_field_that_is_left_to_nobody_is_named() {
    for (body, lacking) in [
        (r#"json = '{ "to": "{destination.msisdn}" }'"#, "the amount"),
        (r#"json = '{ "amount": "{amount:decimal}" }'"#, "{destination.msisdn}"),
        (r#"json = '{ "amount": "{narrative?}", "to": "{destination.msisdn}" }'"#, "the amount"),
    ] {
        let why = refused(&paying(body, ""));
        assert!(why.starts_with("steps.pay pays and does not write") && why.contains(lacking), "{why}");
    }
    let keyless = with(r#"headers = { x-reference-id = "{key:uuid}" }"#, "");
    assert!(refused(&keyless).contains("{key:…}"));
    let two = with(r#"currencies = ["ZMW"]"#, r#"currencies = ["ZMW", "USD"]"#);
    assert!(refused(&two).contains("the currency"));
}

#[test]
fn an_amount_or_a_payee_that_stands_in_a_header_alone_is_written_by_nobody() {
    let file = with(
        r#"headers = { x-reference-id = "{key:uuid}" }"#,
        r#"headers = { x-reference-id = "{key:uuid}", x-amount = "{amount:decimal}", x-to = "{destination.msisdn}" }"#,
    )
    .replace(BODY, r#"json = '{ "amount": "{adapter.total}", "to": "{adapter.to}" }'"#);
    let variables = r#"
[variables]
total = { purpose = "t", field = { chars = "digits", max = 9 } }
to = { purpose = "t", field = { chars = "digits", max = 12 } }
"#;
    assert!(refused(&format!("{file}{variables}")).contains("the amount"));
}

#[test]
fn a_money_field_that_is_written_in_two_units_is_named() {
    let body = r#"json = '{ "amount": "{amount:decimal}", "cents": "{amount:minor}", "to": "{destination.msisdn}" }'"#;
    let why = refused(&paying(body, "[amount]\nminor = { ZMW = 100 }"));
    assert!(why.contains("in two units (decimal, minor)"), "{why}");
}

#[test]
fn an_adapter_fills_in_bodies_only_and_neither_payees_nor_headers() {
    let variable = |field: &str| format!("[variables]\nx = {{ purpose = \"p\", field = {field} }}");
    let text = variable(r#"{ chars = "alnum", max = 9 }"#);
    let header =
        with(r#"x-reference-id = "{key:uuid}""#, r#"x-reference-id = "{key:uuid}", x-y = "{adapter.x}""#);
    assert!(refused(&format!("{header}\n{text}")).contains("comes from the adapter; allowed in bodies only"));
    let query = with("POST {base}/payments", "POST {base}/payments?x={adapter.x}");
    assert!(refused(&format!("{query}\n{text}")).contains("comes from the adapter; allowed in bodies only"));
    let body =
        r#"json = '{ "amount": "{amount:decimal}", "to": "{destination.msisdn}", "x": "{adapter.x}" }'"#;
    load(&paying(body, &text)).expect("a free text in a body");
    let payee = variable(r#"{ kind = "msisdn", country = "260" }"#);
    assert!(
        refused(&paying(body, &payee)).contains("must be plain text: the adapter does not choose the payee")
    );
    assert!(refused(&paying(body, "")).contains("{adapter.x} is not in [variables]"));
}

#[test]
fn a_value_that_may_be_absent_takes_no_other_with_it() {
    for body in [
        r#"json = '{ "amount": "{amount:decimal}{narrative?}", "to": "{destination.msisdn}" }'"#,
        r#"json = '{ "amount": "{amount:decimal}", "to": "{destination.msisdn} {narrative?}" }'"#,
    ] {
        assert!(refused(&paying(body, "")).contains("is optional beside another value"), "{body}");
    }
    let list = r#"json = '{ "amount": "{amount:decimal}", "to": ["{narrative?}", "{destination.msisdn}"] }'"#;
    assert!(
        refused(&paying(list, ""))
            .contains("a list has an optional entry; without it the other entries would change position")
    );
    let xml = r#"xml = '<P a="{amount:decimal}" t="{destination.msisdn}"><N>{narrative?}</N></P>'"#;
    assert!(refused(&paying(xml, "")).contains("values in its attributes with it"));
}

#[test]
fn keys_and_amounts_go_through_no_table() {
    let tables = "[tables.t]\n\"10.00\" = \"1\"";
    let body = r#"json = '{ "amount": "{amount:number|t}", "to": "{destination.msisdn}" }'"#;
    assert!(refused(&paying(body, tables)).contains("expected the host's own value"));
}

#[test]
fn somebody_is_always_paid() {
    let nobody = with(
        r#"msisdn = { kind = "msisdn", country = "260" }"#,
        r#"msisdn = { kind = "msisdn", country = "260", optional = true }"#,
    );
    assert!(refused(&nobody).contains("destination.parts are all optional"));
}

#[test]
fn a_question_names_the_payment_and_nothing_else() {
    for request in [
        "POST {base}/query\"\nheaders = { x-request-id = \"{key:uuid}\" }\njson = '{ \"id\": \"{narrative?}\" }'\n#\"",
        "GET {base}/payments/{key:uuid}?to={destination.msisdn}",
        "GET {base}/payments?note={narrative?}\"\nheaders = { x-request-id = \"{key:uuid}\" }\n#\"",
        "GET {base}/payments/last\"\nheaders = { x-request-id = \"{key:uuid}\" }\n#\"",
    ] {
        let why = refused(&with("GET {base}/payments/{key:uuid}", request));
        assert!(why.contains("may read a reply about another payment; expected"), "{request}: {why}");
    }
    let bound = with("GET {base}/payments/{key:uuid}", "GET {base}/payments?to={destination.msisdn}")
        .replace("[codes]", "[steps.ask.reply.200]\nbound = [{ at = \"/key\", form = \"uuid\" }]\n[codes]")
        .replacen(
            "reply.any = { facts.status.one = \"/status\", reference.one = \"/id\" }\n\n[steps.ask.reply",
            "\n[steps.ask.reply",
            1,
        );
    load(&bound).expect("it finds its key in the reply");
}

#[test]
fn a_payment_is_asked_about_under_a_name_that_it_was_sent_with() {
    let why = refused(&with("GET {base}/payments/{key:uuid}", "GET {base}/payments/{key:hex32}"));
    assert!(why.contains("steps.ask has the key as hex32") && why.contains("is sent: uuid"), "{why}");
}

#[test]
fn nothing_that_is_signed_may_be_absent_or_run_into_its_neighbour() {
    let signed = |over: &str| {
        let file = with(
            r#"{ x-reference-id = "{key:uuid}" }"#,
            r#"{ x-reference-id = "{key:uuid}", x-sign = "{computed.sign}" }"#,
        );
        format!("{file}\n[computed]\nsign = {{ hmac = {{ key = \"hmac\", over = \"{over}\" }} }}")
    };
    load(&signed("{key:hex}|{amount:decimal}|{destination.msisdn}")).expect("plain separators");
    assert!(refused(&signed("{key:hex}|{narrative?}")).contains("expected a separator that it cannot hold"));
    assert!(refused(&signed("{key:hex}{amount:decimal}")).contains("stand side by side"));
    assert!(refused(&signed("{narrative?}")).contains("is optional, expected what is signed to be there"));
}

#[test]
fn a_signature_that_no_request_carries_is_a_slip() {
    let file = format!("{PLAIN}\n[computed]\nsign = {{ hmac = {{ key = \"hmac\", over = \"{{body}}\" }} }}");
    assert!(refused(&file).contains("computed.sign is in no request"));
}

#[test]
fn names_that_others_take_for_one_are_refused() {
    let form = |more: &str| {
        paying(
            &format!("form = {{ amount = \"{{amount:decimal}}\", to = \"{{destination.msisdn}}\", {more} }}"),
            "",
        )
    };
    load(&form("note = \"x\"")).expect("three names");
    assert!(refused(&form("Amount = \"1\"")).contains("is there twice"));
    let query = with("POST {base}/payments", "POST {base}/payments?Amount=1");
    let body = "form = { amount = \"{amount:decimal}\", to = \"{destination.msisdn}\" }";
    assert!(refused(&query.replace(BODY, body)).contains("is there twice"));
}

#[test]
fn what_says_how_a_request_is_read_is_a_constant_of_the_host_or_the_file() {
    for header in ["content-encoding", "expect", "x-http-method-override", "host", "transfer-encoding"] {
        let file = with("{ x-reference-id", &format!("{{ {header} = \"x\", x-reference-id"));
        assert!(refused(&file).contains("which only the host sets"), "{header}");
    }
    let file = with("{ x-reference-id", "{ content-type = \"text/{key:hex}\", x-reference-id");
    assert!(refused(&file).contains("determines how the body is read; expected a constant"));
}

#[test]
fn limits_are_numbers_of_the_rails_currencies() {
    for limits in [
        "max = { ZMW = \"1,000\" }",
        "max = { ZWM = \"1000\" }",
        "min = { ZMW = \"\" }",
        "minor = { USD = 100 }",
    ] {
        assert!(refused(&format!("{PLAIN}\n[amount]\n{limits}")).starts_with("amount."), "{limits}");
    }
}

/// A quote, and a payment of it that names neither amount nor payee.
const QUOTED: &str = r#"
[disburse]
steps = ["quote", "pay"]

[steps.quote]
class = "prepare"
request = "POST {base}/quotes"
json = '{ "amount": "{amount:decimal}", "to": "{destination.msisdn}", "ref": "{key:uuid}" }'
[steps.quote.reply.200]
capture.transfer = { one = "/id", field = { chars = "ascii", max = 20 } }
echo = [{ of = "amount", one = "/amount", as = "decimal" }, { of = "destination.msisdn", one = "/to" }]

[steps.pay]
class = "money"
request = "POST {base}/quotes/{captured.transfer}/pay"
"#;

fn quoted(from: &str, to: &str) -> String {
    let plain = PLAIN.replace("[disburse]\nsteps = [\"pay\"]\n", "");
    let start = plain.find("[steps.pay]").expect("a step");
    let end = plain.find("reply.any = { facts.status").expect("its reply");
    let file = format!("{}{QUOTED}{}", &plain[..start], &plain[end..]);
    assert!(file.contains(from), "{from}");
    file.replacen(from, to, 1)
}

#[test]
fn a_payment_of_a_resource_needs_its_amount_and_payee_read_back() {
    let path = "chars = \"ascii\"";
    assert!(refused(&quoted("", "")).contains("expected none in a path"));
    load(&quoted(path, "chars = \"alnum\"")).expect("all is read back");
    let sound = |from: &str, to: &str| quoted(path, "chars = \"alnum\"").replacen(from, to, 1);
    let unread = sound("{ of = \"amount\", one = \"/amount\", as = \"decimal\" }, ", "");
    assert!(refused(&unread).contains("does not write the amount"));
    let masked = sound("one = \"/to\" }", "one = \"/to\", as = \"masked\" }");
    assert!(refused(&masked).contains("{destination.msisdn}"), "a mask is not equal");
    let loose = sound("as = \"decimal\"", "as = \"suffix\"");
    assert!(refused(&loose).contains("expected an amount to be exact, decimal or minor"));
    let again = sound("class = \"prepare\"", "class = \"prepare\"\nagain = true");
    assert!(refused(&again).contains("expected one payment to have one resource"));
    let asked = sound("GET {base}/payments/{key:uuid}", "GET {base}/payments/{captured.transfer}");
    load(&asked).expect("asked by what was captured");
    let fleeting = asked.replacen("class = \"prepare\"", "class = \"prepare\"\nagain = true", 1).replacen(
        "request = \"POST {base}/quotes/{captured.transfer}/pay\"",
        "request = \"POST {base}/quotes/{captured.transfer}/pay\"\nheaders = { k = \"{key:uuid}\" }",
        1,
    );
    assert!(refused(&fleeting).contains("made again for every attempt"));
    let early = sound("\"ref\": \"{key:uuid}\"", "\"ref\": \"{key:uuid}\", \"of\": \"{captured.transfer}\"");
    assert!(refused(&early).contains("expected a step before it to bring it"));
    let long = sound("max = 20", "max = 2000");
    assert!(refused(&long).contains("is too long"));
    let unnamed = sound("/quotes/{captured.transfer}/pay", "/quotes/pay");
    assert!(refused(&unnamed).contains("{key:…}"));
}

#[test]
fn steps_stand_in_their_order_and_all_are_used() {
    assert!(
        refused(&with("steps = [\"pay\"]", "steps = [\"ask\", \"pay\"]")).contains("exactly one money step")
    );
    assert!(refused(&with("steps = [\"pay\"]", "steps = []")).contains("expected a money step"));
    assert!(refused(&with("steps = [\"ask\"]", "steps = [\"pay\"]")).contains("steps of class read"));
    assert!(refused(&with("[query-status]\nsteps = [\"ask\"]", "")).contains("steps.ask is in no operation"));
}

#[test]
fn hours_float_and_callbacks_are_checked_with_the_file() {
    let callback = "[callback]\nverify = { key = \"hmac\", header = \"x-signature\", encoding = \"hex\" }\n\
        reply = { bound = [{ at = \"/ref\", form = \"uuid\" }], facts.status.one = \"/status\" }\n";
    load(&format!("{PLAIN}{callback}")).expect("sound");
    let balance = "[steps.balance]\nclass = \"balance\"\nrequest = \"GET {base}/balance\"\n";
    load(&format!("{PLAIN}{balance}[float.ZMW]\nstep = \"balance\"\nvalue = \"/b\"\nfloor = \"5000\"\n"))
        .expect("sound");
    for (more, problem) in [
        (callback.replace("\"hmac\"", "\"other\""), "callback.verify.key is \"other\""),
        (
            callback.replace("bound = [{ at = \"/ref\", form = \"uuid\" }], ", ""),
            "callback.reply has no bound",
        ),
        (callback.replace("\"uuid\"", "\"hex32\""), "callback has the key as hex32"),
        (
            callback.replace("facts.status.one = \"/status\"", "facts.status.header = \"x-status\""),
            "callback.reply reads a header",
        ),
        (callback.replace("\"x-signature\"", "\"X-Signature\""), "callback.verify.header is"),
        ("[float.EUR]\nstep = \"ask\"\nvalue = \"/b\"\n".to_owned(), "float has \"EUR\""),
        ("[float.ZMW]\nstep = \"ask\"\nvalue = \"/b\"\n".to_owned(), "float.ZMW.step is \"ask\""),
        ("[float.ZMW]\nstep = \"ask\"\nvalue = \"b\"\n".to_owned(), "float.ZMW.value is \"b\""),
        (
            "[float.ZMW]\nstep = \"ask\"\nvalue = \"/b\"\nfloor = \"much\"\n".to_owned(),
            "float.ZMW.floor is \"much\"",
        ),
        (balance.to_owned(), "steps.balance is in no operation"),
        (
            balance.replace("/balance\"\n", "/{key:uuid}\"\n")
                + "[float.ZMW]\nstep = \"balance\"\nvalue = \"/b\"\n",
            "belongs to a payment; not allowed here",
        ),
        (
            "[steps.balance]\nclass = \"balance\"\nrequest = \"GET {base}/b\"\n[float.ZMW]\nstep = \"balance\"\nvalue = \"/b\"\nminor = true\n"
                .to_owned(),
            "float.ZMW.minor needs amount.minor.ZMW",
        ),
        ("[hours]\ndays = []\nfrom = \"08:00\"\nto = \"09:00\"\n".to_owned(), "hours.days is empty"),
    ] {
        let found = refused(&format!("{PLAIN}{more}"));
        assert!(found.contains(problem), "{found}, expected {problem}");
    }
}

#[test]
fn an_echo_of_a_part_that_the_payee_does_not_have_is_refused() {
    let file = with(
        "reply.any = { facts.status.one = \"/status\", reference.one = \"/id\" }",
        "reply.any = { facts.status.one = \"/status\", echo = [{ of = \"destination.phone\", one = \"/to\" }] }",
    );
    let found = refused(&file);
    assert!(
        found.contains("echo.of is \"destination.phone\"") && found.contains("destination.parts: msisdn"),
        "{found}"
    );
}
