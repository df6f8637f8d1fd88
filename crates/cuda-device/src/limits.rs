//! Launches that a device cannot do, said before the driver is asked, which would only say `CUDA_ERROR_INVALID_VALUE`.

/// Shared memory of a block that a kernel may have without asking for more: static and dynamic together (CUDA C++ Programming Guide,
/// "Technical Specifications per Compute Capability").
pub(crate) const SHARED_WITHOUT_OPT_IN: u32 = 48 << 10;

/// What limits launches of one kernel on one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Shared memory that the kernel declares.
    pub(crate) static_shared: u32,
    /// Most threads of a block, by the kernel's registers and `.maxntid`.
    pub(crate) threads: u32,
    /// Most shared memory of a block on the device, with opting in.
    pub(crate) shared_opt_in: u32,
}

/// Checks a launch. Gives the dynamic shared memory that the kernel must be allowed first, where it must; the error says what does not fit.
pub(crate) fn check(limits: &Limits, block: [u32; 3], dynamic_shared: u32) -> Result<Option<u32>, String> {
    let threads = block.iter().fold(1u64, |product, size| product.saturating_mul(u64::from(*size)));
    if threads > u64::from(limits.threads) {
        return Err(format!("a block of {threads} threads; its registers allow {}", limits.threads));
    }
    let shared = u64::from(limits.static_shared) + u64::from(dynamic_shared);
    if shared > u64::from(limits.shared_opt_in.max(SHARED_WITHOUT_OPT_IN)) {
        return Err(format!(
            "{shared} bytes of shared memory ({} declared, {dynamic_shared} dynamic); a block can have {}",
            limits.static_shared,
            limits.shared_opt_in.max(SHARED_WITHOUT_OPT_IN)
        ));
    }
    Ok((shared > u64::from(SHARED_WITHOUT_OPT_IN)).then_some(dynamic_shared))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { static_shared: 1024, threads: 256, shared_opt_in: 163 << 10 };

    #[test]
    fn opting_in_begins_above_48_kibibytes() {
        assert_eq!(check(&LIMITS, [256, 1, 1], 0), Ok(None));
        assert_eq!(check(&LIMITS, [16, 4, 4], (47 << 10) + 1), Ok(Some((47 << 10) + 1)));
        assert_eq!(check(&LIMITS, [1, 1, 1], 47 << 10), Ok(None));
        assert_eq!(check(&LIMITS, [1, 1, 1], 162 << 10), Ok(Some(162 << 10)));
        // A device whose driver knows no opting in.
        assert_eq!(check(&Limits { shared_opt_in: 0, ..LIMITS }, [1, 1, 1], 47 << 10), Ok(None));
    }

    #[test]
    fn what_does_not_fit_is_said() {
        assert_eq!(check(&LIMITS, [32, 3, 3], 0).unwrap_err(), "a block of 288 threads; its registers allow 256");
        let error = check(&LIMITS, [1, 1, 1], (162 << 10) + 1).unwrap_err();
        assert_eq!(error, "166913 bytes of shared memory (1024 declared, 165889 dynamic); a block can have 166912");
        assert!(check(&LIMITS, [u32::MAX; 3], u32::MAX).is_err());
    }
}
