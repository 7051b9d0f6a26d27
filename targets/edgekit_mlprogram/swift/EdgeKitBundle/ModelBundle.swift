import CoreML
import Foundation

/// A bundle that `edgekit package MODEL --target ios18` wrote, with `--also ios27` for Core AI.
public struct ModelBundle: Sendable {
    public let folder: URL
    public let manifest: Manifest
    private let goldenSamples: URL

    /// Opens the bundle in `folder`.
    ///
    /// - Parameter goldenSamples: The folder that holds `golden`; the bundle's own where nothing is given.
    public init(folder: URL, goldenSamples: URL? = nil) throws {
        self.folder = folder
        self.goldenSamples = goldenSamples ?? folder
        manifest = try Manifest(folder: folder)
    }

    /// The build that this system executes: Core AI's where the bundle holds one and the system has Core AI, else Core ML's.
    ///
    /// This package runs models that keep states with Core ML alone.
    func executable(computeUnits: MLComputeUnits) async throws -> any ExecutableBuild {
        #if canImport(CoreAI)
        if #available(iOS 27, macOS 27, tvOS 27, visionOS 27, watchOS 27, *),
            let build = manifest.build(suffix: CoreAIBuild.suffix)
        {
            guard build.states?.isEmpty ?? true else {
                guard manifest.build(suffix: CoreMLBuild.suffix) != nil else { throw ValueError.keepsStates }
                return try await coreMLExecutable(computeUnits: computeUnits)
            }
            return try await CoreAIBuild(build, in: folder)
        }
        #endif
        return try await coreMLExecutable(computeUnits: computeUnits)
    }

    private func coreMLExecutable(computeUnits: MLComputeUnits) async throws -> CoreMLBuild {
        try CoreMLBuild(
            try coreMLBuild(), model: try await loadModel(computeUnits: computeUnits), computeUnits: computeUnits,
            preprocessing: manifest.imagePreprocessing)
    }

    func coreMLBuild() throws -> Manifest.Build {
        guard let build = manifest.build(suffix: CoreMLBuild.suffix) else {
            throw ValueError.noBuild(manifest.builds.map(\.model.main))
        }
        return build
    }

    /// The manifest as it stands in its file, which tells this bundle from all others.
    func manifestText() throws -> String {
        try String(contentsOf: folder.appendingPathComponent(Manifest.fileName), encoding: .utf8)
    }

    /// A golden sample's array: one of its inputs, or of the outputs in the folder called `kind`.
    func golden(sample: Int, kind: String, position: Int) throws -> NumPyArray {
        try NumPyArray(contentsOf: goldenSamples.appendingPathComponent("golden/\(sample)/\(kind)/\(position).npy"))
    }
}
