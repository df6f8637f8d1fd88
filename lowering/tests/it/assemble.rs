//! Every kernel assembles.

use crate::kernels;
use crate::support::{assemble, compile};

#[test]
fn multiply_add() {
    for vector in [1, 4] {
        let text = kernels::multiply_add(vector);
        let compiled = compile(&text);
        println!("{text}\n{}\n{}", compiled.gpu, compiled.ptx);
        assemble("multiply_add", &compiled.ptx, "sm_80");
    }
}
