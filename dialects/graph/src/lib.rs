//! x
use tenon_ir as _;
/// x
pub fn x(){}
