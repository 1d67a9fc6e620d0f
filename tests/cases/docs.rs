//! What the documents say is what the gateway does.

use std::fs;
use std::path::Path;

use chela::edge::{Access, methods, routes};
use chela::event::{Kind, Role};
use chela::port::Port;
use support::{TestDir, chela};

fn document(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
    fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn every_route_and_method_is_documented_with_its_scope() {
    let text = document("docs/protocol.md");
    let row = |cells: &[&str]| {
        let found = text.lines().any(|line| line.starts_with('|') && cells.iter().all(|cell| line.contains(cell)));
        assert!(found, "docs/protocol.md has no row with {cells:?}");
    };
    for route in routes().list() {
        let access = match route.access {
            Access::Open => "anyone".to_owned(),
            Access::PerMethod => "scope by method".to_owned(),
            Access::Needs(scope) => format!("`{scope}`"),
            Access::Watching => "watching".to_owned(),
            Access::Page(chela::scope::Scope::Read) => "| page |".to_owned(),
            Access::Page(_) => "| form |".to_owned(),
        };
        let listeners: Vec<&str> = route.ports.iter().map(|port| port.as_str()).collect();
        let listeners = if route.ports.len() == Port::ALL.len() { "all".into() } else { listeners.join(", ") };
        row(&[&format!("| {} |", route.method), &format!("`{}`", route.path), &access, &format!("| {listeners} |")]);
    }
    for (method, scope) in methods().list() {
        row(&[&format!("`{method}`"), &format!("`{scope}`")]);
    }
}

#[test]
fn every_type_of_event_is_documented_with_its_role_and_no_other() {
    let text = document("docs/events.md");
    let table = text.split("## Types").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("a table of types");
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').splitn(3, '|').map(str::trim).collect())
        .collect();
    let documented: Vec<(&str, &str)> =
        rows.iter().map(|row| (row[0].trim_matches('`'), row[1].trim_matches('`'))).collect();
    let known: Vec<(&str, &str)> = Kind::ALL.iter().map(|kind| (kind.as_str(), kind.role().as_str())).collect();
    assert_eq!(documented, known, "in the order of `event.rs`");
    assert!(rows.iter().all(|row| row.len() == 3 && row[2].len() > 3), "each says something");
    for role in Role::ALL {
        assert!(text.contains(&format!("`{}` (", role.as_str())), "docs/events.md does not say what {role:?} is");
    }
}

#[test]
fn every_path_and_parameter_of_the_monitor_is_documented() {
    let text = document("docs/events.md");
    let host = support::TestHost::start();
    let (_, openapi) = host.get("/api/openapi.json");
    for (path, operations) in openapi["paths"].as_object().expect("paths") {
        let row = text.lines().find(|line| line.starts_with('|') && line.contains(&format!("`{path}`")));
        let row = row.or_else(|| text.lines().find(|line| line.contains(&format!(" `{path}`"))));
        let row = row.unwrap_or_else(|| panic!("docs/events.md has no row for {path}"));
        for parameter in operations["get"]["parameters"].as_array().into_iter().flatten() {
            let name = parameter["name"].as_str().expect("a name");
            let given = parameter["in"] == "path" || row.contains(&format!("`{name}`"));
            assert!(given, "docs/events.md does not say that {path} takes {name}");
        }
    }
}

#[test]
fn every_command_is_documented() {
    let text = document("docs/operating.md");
    let dir = TestDir::empty();
    let commands = |arguments: &[&str]| -> Vec<String> {
        let help = chela(&dir.state, arguments).stdout;
        let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
        let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        names
            .filter_map(|line| line.split_whitespace().next())
            .filter(|name| *name != "help")
            .map(str::to_owned)
            .collect()
    };
    let mut all: Vec<String> = Vec::new();
    for command in commands(&["--help"]) {
        let below = commands(&[&command, "--help"]);
        match below.is_empty() {
            true => all.push(command),
            false => all.extend(below.iter().map(|below| format!("{command} {below}"))),
        }
    }
    assert!(all.len() > 20, "{all:?}");
    for command in all {
        let (group, name) = command.split_once(' ').unwrap_or(("", &command));
        let found = text.lines().filter(|line| line.starts_with("| `chela ")).any(|line| {
            let cell = line.split(" | ").next().unwrap_or_default();
            cell.contains(group) && cell.split([' ', '|', '`', '\\']).any(|word| word == name)
        });
        assert!(found, "docs/operating.md has no row for `chela {command}`");
    }
}

#[test]
fn every_key_of_the_configuration_is_documented() {
    let text = document("docs/operating.md");
    let dir = TestDir::empty();
    let schema = chela(&dir.state, &["config", "schema"]).json();
    let mut paths = Vec::new();
    collect("", &schema, &mut paths);
    assert!(paths.len() > 20, "{paths:?}");
    for path in paths {
        assert!(text.contains(&format!("`{path}`")), "docs/operating.md does not speak of `{path}`");
    }
}

fn collect(path: &str, schema: &serde_json::Value, paths: &mut Vec<String>) {
    let properties = schema["properties"].as_object().or_else(|| schema["items"]["properties"].as_object());
    let list = if schema["items"].is_object() { "[]" } else { "" };
    let Some(properties) = properties else {
        paths.push(path.to_owned());
        return;
    };
    for (key, below) in properties.iter().filter(|(key, _)| *key != "$schema") {
        let dot = if path.is_empty() { "" } else { "." };
        collect(&format!("{path}{list}{dot}{key}"), below, paths);
    }
}

#[test]
fn exit_codes_in_the_document_are_those_of_the_help() {
    let dir = TestDir::empty();
    let help = chela(&dir.state, &["--help"]).stdout;
    let text = document("docs/operating.md");
    let codes = help.lines().skip_while(|line| !line.starts_with("Exit codes:")).skip(1);
    let codes: Vec<&str> =
        codes.take_while(|line| !line.is_empty()).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(codes.len(), 8);
    for code in codes {
        assert!(
            text.lines().any(|line| line.starts_with(&format!("| {code} |"))),
            "{code} is not in docs/operating.md"
        );
    }
}

#[test]
fn the_dashboard_shows_what_the_gateway_counts_and_the_document_names_it() {
    let dashboard: serde_json::Value = serde_json::from_str(&document("docs/grafana.json")).expect("JSON");
    let host = support::TestHost::start();
    let page = String::from_utf8(host.request("GET", "/metrics", &[], b"").body.to_vec()).expect("text");
    let counted: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    assert!(counted.len() > 8, "{page}");
    let (text, source) = (document("docs/operating.md"), document("host/machinery/src/metrics.rs"));
    let panels = dashboard["panels"].as_array().expect("panels");
    let asked = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    for expression in asked.map(|target| target["expr"].as_str().expect("an expression")) {
        let words = expression.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        for name in words.filter(|word| word.starts_with("chela_") || word.starts_with("process_")) {
            let whole = name.strip_suffix("_bucket").unwrap_or(name);
            assert!(text.contains(&format!("`{whole}`")), "docs/operating.md does not name {name} of the dashboard");
            // A family without a member is not on the page, so the table of the source counts.
            let own = whole.trim_start_matches("chela_").trim_start_matches("process_");
            let own = ["_total", "_info"].iter().find_map(|end| own.strip_suffix(end)).unwrap_or(own);
            let own = ["_seconds", "_bytes"].iter().find_map(|end| own.strip_suffix(end)).unwrap_or(own);
            assert!(source.contains(&format!("\"{own}\"")), "docs/grafana.json shows {name}, which nobody counts");
        }
    }
    let shown = dashboard["panels"].to_string();
    for name in counted {
        assert!(text.contains(&format!("`{name}")), "docs/operating.md does not name {name}");
        assert!(shown.contains(name), "docs/grafana.json does not show {name}");
    }
}

/// The names in backticks of a table's last column.
fn named_tests(text: &str) -> Vec<&str> {
    let rows = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| promise"));
    let last = rows.filter_map(|line| line.trim_end_matches([' ', '|']).rsplit_once(" | "));
    last.flat_map(|(_, tests)| tests.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn every_promise_of_security_names_a_test_that_is_there() {
    let text = document("SECURITY.md");
    let promises = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| promise")).count();
    let named = named_tests(&text);
    assert!(promises > 40 && named.len() >= promises, "{promises} promises, {} tests", named.len());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
    let (mut left, mut sources) = (vec![root.join("tests"), root.join("host")], String::new());
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(fs::read_dir(&path).expect("readable").map(|entry| entry.expect("an entry").path()));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            sources.push_str(&fs::read_to_string(&path).expect("readable"));
        }
    }
    for name in named {
        let test = format!("#[test]\n    fn {name}()");
        let there = sources.contains(&test.replace("    fn", "fn")) || sources.contains(&test);
        assert!(there, "SECURITY.md names the test `{name}`, and there is none");
    }
}

#[test]
fn every_room_is_on_the_map() {
    let maps = ["host/words/src/lib.rs", "host/machinery/src/lib.rs", "host/src/lib.rs"].map(document).concat();
    let text = document("docs/ARCHITECTURE.md");
    for room in maps.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')) {
        assert!(text.contains(&format!("`{room}`")), "docs/ARCHITECTURE.md does not speak of `{room}`");
    }
}

#[test]
fn the_handbook_of_the_hub_shows_its_pictures_and_they_are_small() {
    let text = document("docs/hub.md");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/pictures");
    let (mut there, mut bytes) = (Vec::new(), 0);
    for entry in fs::read_dir(&folder).expect("a folder of pictures") {
        let entry = entry.expect("an entry");
        let (name, size) = (entry.file_name().to_string_lossy().into_owned(), entry.metadata().expect("facts").len());
        assert!(size > 1_000 && size < 120_000, "{name} has {size} bytes");
        assert!(
            text.contains(&format!("pictures/{name}\"")) || text.contains(&format!("(pictures/{name})")),
            "{name} is nowhere shown"
        );
        bytes += size;
        there.push(name);
    }
    assert!(bytes < 2_000_000, "{bytes} bytes of pictures");
    for part in text.split("pictures/").skip(1).filter(|part| part.contains(".webp")) {
        let name: String = part.chars().take_while(|c| !['"', ')', ' ', '`'].contains(c)).collect();
        assert!(
            !name.ends_with(".webp") || there.contains(&name),
            "there is no {name}; `CHELA_PICTURES=docs cargo xtask test hub_pictures` takes it"
        );
    }
}
