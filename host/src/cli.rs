//! The command line: what each command takes, and its way to an exit code.
//! Keeps true: every command has `--json`, every error says what to change, every exit code is in the help.

mod agents;
mod ask;
mod backup;
mod channel;
mod chat;
mod config;
mod doctor;
mod events;
mod exit;
mod init;
mod jobs;
mod manual;
mod monitor;
mod openapi;
mod output;
mod plugin;
mod progress;
mod questions;
mod restore;
mod serve;
mod send;
mod service;
mod sessions;
mod status;
mod task;
mod token;
mod why;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};

use crate::config::Listen;
use crate::layout::StateDir;
use crate::port::PerPort;
use output::Output;

/// A gateway for teams of AI agents whose policies are WebAssembly components
#[derive(Parser)]
#[command(name = "chela", version, propagate_version = true, after_help = exit::HELP)]
struct Arguments {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

#[derive(Args)]
struct Common {
    /// Where the gateway keeps all it knows [default: ~/.chela]
    #[arg(long, global = true, value_name = "DIR", env = "CHELA_STATE_DIR", hide_env_values = true)]
    state_dir: Option<PathBuf>,
    /// Print one JSON document instead of text
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Write a first configuration with a new token; at a terminal, asks what no flag says
    Init(init::Init),
    /// Serve the team of the state directory until stopped
    Serve(serve::Serve),
    /// Watch a directory that another process writes, also one of the old system; writes nothing there
    Monitor(monitor::Monitor),
    /// Print the owner's token, alone on a line
    Token,
    /// List the agents of the team
    Agents,
    /// Show the gateway that serves the state directory
    Status,
    /// Send a message to an agent, and with --wait print its answer
    Send(send::Send),
    /// Talk to an agent in the terminal
    Chat(chat::Chat),
    /// Show what happened, and with --follow what happens
    Events(events::Events),
    /// Conversations with agents: list, show, reset, delete; and work sessions
    Sessions(sessions::Sessions),
    /// List open tasks of the team
    Tasks(task::Tasks),
    /// Begin, change and finish tasks, as agents do with their tools
    Task(task::Task),
    /// List what agents have asked of each other, and what became of it
    Jobs(jobs::Jobs),
    /// List what agents want to know from people
    Questions(questions::Questions),
    /// Answer a question of an agent; its task goes on
    Answer(questions::Answer),
    /// Start a sub-agent of an agent on a task of its own
    Spawn(jobs::Spawn),
    /// Say what decided something about a work session, a task or a job
    Why(why::Why),
    /// Read, check and document the configuration
    #[command(subcommand)]
    Config(config::Config),
    /// See, load, try and compile the components that make decisions
    #[command(subcommand)]
    Plugin(plugin::Plugin),
    /// See how the chat networks are, and begin one anew
    #[command(subcommand)]
    Channel(channel::Channel),
    /// Write one archive of the state directory, while a gateway serves it or not
    Backup(backup::Backup),
    /// Make a state directory from a backup
    Restore(restore::Restore),
    /// Run the gateway under systemd: install, uninstall, status
    #[command(subcommand)]
    Service(service::Service),
    /// Look for what is wrong here, and say how to mend it
    Doctor(doctor::Doctor),
    /// Print the OpenAPI document of the monitor's paths, for programs that are to call them
    Openapi,
    /// Print what completes these commands in a shell
    Completions(manual::Completions),
    /// Print the manual, or write a page of it for every command
    Man(manual::Man),
}

/// Addresses of the three listeners.
#[derive(Args, Clone, Copy)]
struct Listeners {
    /// Gateway: HOST:PORT, a port on 127.0.0.1 (0 is any free one), or `off`
    #[arg(long, value_name = "ADDR|off")]
    gateway: Option<Listen>,
    /// Monitor API, likewise
    #[arg(long, value_name = "ADDR|off")]
    monitor: Option<Listen>,
    /// Web page, likewise
    #[arg(long, value_name = "ADDR|off")]
    hub: Option<Listen>,
}

impl From<Listeners> for PerPort<Option<Listen>> {
    fn from(Listeners { gateway, monitor, hub }: Listeners) -> Self {
        Self { gateway, monitor, hub }
    }
}

/// Runs the command that the process was called with.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let output = Output { json: arguments.common.json };
    match run(arguments, output) {
        Ok(code) => code,
        Err(error) => {
            let code = exit::code_of(&error);
            output.error(&error, code);
            ExitCode::from(code)
        }
    }
}

fn run(arguments: Arguments, output: Output) -> anyhow::Result<ExitCode> {
    let given = arguments.common.state_dir;
    let dir = state_dir(given.clone())?;
    match arguments.command {
        Command::Init(init) => init.run(&dir, output)?,
        Command::Serve(serve) => serve.run(&dir, output)?,
        Command::Monitor(monitor) => monitor.run(&dir, output)?,
        Command::Token => token::run(&dir, output)?,
        Command::Agents => agents::run(&dir, output)?,
        Command::Status => return status::run(&dir, output),
        Command::Send(send) => return send.run(&dir, output),
        Command::Chat(chat) => return chat.run(&dir),
        Command::Events(events) => events.run(&dir, output)?,
        Command::Sessions(sessions) => sessions.run(&dir, output)?,
        Command::Tasks(tasks) => tasks.run(&dir, output)?,
        Command::Task(task) => return task.run(&dir, output),
        Command::Jobs(jobs) => jobs.run(&dir, output)?,
        Command::Questions(questions) => questions.run(&dir, output)?,
        Command::Answer(answer) => answer.run(&dir, output)?,
        Command::Spawn(spawn) => spawn.run(&dir, output)?,
        Command::Why(why) => why.run(&dir, output)?,
        Command::Config(config) => config.run(&dir, output)?,
        Command::Plugin(plugin) => return plugin.run(&dir, output),
        Command::Channel(channel) => channel.run(&dir, output)?,
        Command::Backup(backup) => backup.run(&dir, output)?,
        Command::Restore(restore) => restore.run(&dir, output)?,
        Command::Service(service) => return service.run(given, output),
        Command::Doctor(doctor) => return doctor.run(&dir, output),
        Command::Openapi => openapi::run(output),
        Command::Completions(completions) => completions.run(output)?,
        Command::Man(man) => man.run(output)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn state_dir(given: Option<PathBuf>) -> anyhow::Result<StateDir> {
    let path = match given {
        Some(path) => path,
        None => std::env::home_dir().context("there is no home directory; give --state-dir DIR")?.join(".chela"),
    };
    let absolute = std::path::absolute(&path).with_context(|| format!("{} is no path", path.display()))?;
    Ok(StateDir::new(absolute))
}

/// For commands that ask one thing of a gateway.
fn block_on<T>(future: impl Future<Output = T>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    Ok(runtime.block_on(future))
}
