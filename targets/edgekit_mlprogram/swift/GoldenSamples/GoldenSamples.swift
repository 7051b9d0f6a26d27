import Foundation

/// The golden samples of the bundle that this package was made from.
public enum GoldenSamples {
    /// The folder that holds `golden`.
    public static let folder = Bundle.module.resourceURL ?? Bundle.module.bundleURL
}
