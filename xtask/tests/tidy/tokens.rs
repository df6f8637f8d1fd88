//! Rust sources as tokens, so that comments and strings are not mistaken for code, nor code for strings.

use proc_macro2::{TokenStream, TokenTree};

/// A token that a rule looks at, with its line, counted from 1.
#[derive(Debug, PartialEq)]
pub enum Token {
    /// An identifier or keyword.
    Word(String),
    /// A string literal's content as written between the quotes; documentation is not among these.
    Text(String),
}

/// The words and string literals of a Rust file in order; empty for a file that is not Rust.
pub fn tokens(source: &str) -> Vec<(usize, Token)> {
    let mut found = Vec::new();
    if let Ok(stream) = source.parse::<TokenStream>() {
        collect(stream, &mut found);
    }
    found
}

fn collect(stream: TokenStream, found: &mut Vec<(usize, Token)>) {
    let mut documentation = false;
    for tree in stream {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Group(group) => collect(group.stream(), found),
            TokenTree::Ident(word) => {
                // `/// text` arrives as `#[doc = "text"]`.
                documentation = word == "doc";
                found.push((line, Token::Word(word.to_string())));
            }
            TokenTree::Literal(literal) => {
                let literal = literal.to_string();
                let inside = literal.split_once('"').and_then(|(_, rest)| Some(rest.rsplit_once('"')?.0.to_string()));
                if let Some(text) = inside.filter(|_| !documentation) {
                    found.push((line, Token::Text(text)));
                }
            }
            TokenTree::Punct(_) => {}
        }
    }
}

#[test]
fn comments_and_documentation_are_no_tokens() {
    let source = "//! \"a\"\n/// \"b\"\nfn f() {\n    // \"c\"\n    g(\"d\", r#\"e\"#, 'f'); /* \"g\" */\n}\n";
    let texts: Vec<(usize, Token)> =
        tokens(source).into_iter().filter(|(_, token)| matches!(token, Token::Text(_))).collect();
    assert_eq!(texts, [(5, Token::Text("d".into())), (5, Token::Text("e".into()))]);
}
