//! The files of our rails: the mock, and one of a single JSON request, as rivals make it too.

/// A rail of a host that is measured.
#[derive(Debug, Clone)]
pub(super) struct BenchRailFile {
    pub name: String,
    pub text: String,
    /// At a time.
    pub calls: u32,
}

/// A mock that answers after a time, which no deadline cuts short.
pub(super) fn mock(name: &str, calls: u32, delay_ms: u32) -> BenchRailFile {
    let delay = if delay_ms > 0 { format!("delay {delay_ms} ") } else { String::new() };
    scripted(name, calls, "timeouts = { call_ms = 110000 }", 180, &format!("{delay}settled"))
}

/// A mock that never answers: its calls end by their deadline alone.
pub(super) fn dead(name: &str, calls: u32) -> BenchRailFile {
    scripted(name, calls, "timeouts = { call_ms = 2000 }", 45, "delay 60000 settled")
}

fn scripted(name: &str, calls: u32, timeouts: &str, lease_seconds: u32, step: &str) -> BenchRailFile {
    let text = format!(
        "kind = \"mock\"\ncomponent = \"builtin:mock\"\nidempotent = true\nhand_over_marks = false\n{timeouts}\n\
         [pace]\nconcurrency = {calls}\nlease_seconds = {lease_seconds}\n[settings]\nscript = \"otherwise: {step}\"\n"
    );
    BenchRailFile { name: name.to_owned(), text, calls }
}

/// The adapter that `railhost plugin new` begins with, at a rail of the benchmark. The deadline is longer than the slowest rail
/// takes to answer; the lease holds it and the writing down.
pub(super) fn plain(name: &str, base: &str, calls: u32) -> BenchRailFile {
    let text = format!(
        r#"component = "builtin:template"
idempotent = true
hand_over_marks = false
timeouts = {{ call_ms = 50000, first_byte_ms = 45000, idle_ms = 45000 }}
pace = {{ concurrency = {calls}, lease_seconds = 100 }}
network = {{ reach = "loopback" }}
base = "{base}"
currencies = ["ZMW"]
secrets = {{ api_key = {{ file = "simulated/bank_api_key" }} }}
destination = {{ plain = "msisdn", parts = {{ msisdn = {{ chars = "digits", min = 9, max = 15 }} }} }}

[disburse]
steps = ["pay"]

[steps.pay]
class = "money"
request = "POST {{base}}/payments"
headers = {{ x-reference-id = "{{key:uuid}}", x-api-key = "{{secret.api_key}}" }}
json = '''
{{ "amount": "{{amount:decimal}}", "currency": "{{currency}}", "payee": "{{destination.msisdn}}" }}
'''
reply.any = {{ facts.status.one = "/status", reference.one = "/reference" }}

[query-status]
steps = ["status"]

[steps.status]
class = "read"
request = "GET {{base}}/payments/{{key:uuid}}"
headers = {{ x-api-key = "{{secret.api_key}}" }}
reply.any = {{ facts.status.one = "/status", reference.one = "/reference" }}

[codes]
version = 1
rows = [{{ field = "status", code = "PAID", class = "success" }}]
"#
    );
    BenchRailFile { name: name.to_owned(), text, calls }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rail::definition::Definition;

    use super::*;

    #[test]
    fn a_host_takes_the_files() {
        let plain = plain("plain", "http://127.0.0.1:1", 500);
        for file in [mock("mock", 2500, 0), mock("slow", 32, 20), dead("dead", 32), plain] {
            let definition = Definition::parse(&file.name, Path::new("/nowhere"), &file.text);
            let definition =
                definition.unwrap_or_else(|problem| panic!("{}: {problem}\n{}", file.name, file.text));
            assert_eq!(definition.file.pace.concurrency, file.calls);
        }
    }
}
