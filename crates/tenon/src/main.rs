//! The command `tenon`.

fn main() -> std::process::ExitCode {
    tenon::command::main()
}
