//! The fixed surface, from languages other than ours.

use std::process::Command;

use support::{Binary, TestDir, have};

/// Reads the directory and calls the gateway, knowing only what is documented.
const PYTHON: &str = r#"
import json, sys, urllib.request
state = sys.argv[1]
run = json.load(open(state + "/run/gateway.json"))
token = json.load(open(state + "/chela.json"))["gateway"]["auth"]["token"]
body = json.dumps({"type": "req", "id": "1", "method": "agents.list"}).encode()
request = urllib.request.Request("http://" + run["gateway"] + "/rpc", body, {"Authorization": "Bearer " + token})
answer = json.load(urllib.request.urlopen(request, timeout=120))
print(answer["id"], answer["ok"], ",".join(agent["id"] for agent in answer["payload"]["agents"]))
"#;

const NODE: &str = r#"
const fs = require("fs");
const state = process.argv[1];
const run = JSON.parse(fs.readFileSync(state + "/run/gateway.json"));
const token = JSON.parse(fs.readFileSync(state + "/chela.json")).gateway.auth.token;
fetch("http://" + run.monitor + "/api/health", { headers: { "X-Task-Monitor-Token": token } })
  .then((answer) => answer.json())
  .then((health) => console.log(health.ok, health.agents));
"#;

fn check(tool: &str, program: &str, flag: &str, script: &str, expected: &str) {
    if !have(tool) {
        return;
    }
    let dir = TestDir::empty();
    let serving = Binary::serve(&dir);
    let output = Command::new(program).args([flag, script]).arg(dir.state.path()).output().expect("runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(serving.terminate().code, Some(0));
}

#[test]
fn a_python_script_finds_the_gateway_and_calls_it() {
    check("python", "python3", "-c", PYTHON, "1 True ruda,eden,seum\n");
}

#[test]
fn a_node_script_reads_the_monitor_with_the_old_header() {
    check("node", "node", "-e", NODE, "true 3\n");
}
