import CryptoKit
import Foundation

/// The bundle's models are not as the manifest has them.
public struct IntegrityError: Error, Equatable {
    /// What is wrong with a file.
    public enum Flaw: String, Sendable {
        case missing, changed
        case unlisted = "not in the manifest"
    }

    /// By path in the bundle.
    public let flaws: [String: Flaw]
}

extension ModelBundle {
    /// Compares the models that Apple's systems load with the SHA-256 sums in the manifest.
    ///
    /// For a bundle that came over the network, before it is loaded. Who can change the files can change the manifest
    /// too: give the manifest's own sum where the app knows it.
    ///
    /// - Parameter manifestDigest: SHA-256 of `manifest.json` in hexadecimal digits, from a source that the app trusts.
    /// - Throws: ``IntegrityError`` with every file that is changed, missing or not in the manifest.
    public func checkIntegrity(manifestDigest: String? = nil) throws {
        var flaws: [String: IntegrityError.Flaw] = [:]
        if let manifestDigest, try digest(of: Manifest.fileName) != manifestDigest.lowercased() {
            flaws[Manifest.fileName] = .changed
        }
        let parts = manifest.builds.filter(\.isForApple).flatMap(\.model.files)
        let listed = manifest.files.filter { file in parts.contains { file.path == $0 || file.path.hasPrefix($0 + "/") } }
        let present = Set(parts.flatMap(files))
        for file in listed {
            if !present.contains(file.path) {
                flaws[file.path] = .missing
            } else if try digest(of: file.path) != file.sha256 {
                flaws[file.path] = .changed
            }
        }
        for path in present.subtracting(listed.map(\.path)) {
            flaws[path] = .unlisted
        }
        if !flaws.isEmpty { throw IntegrityError(flaws: flaws) }
    }

    /// The files that a part of the bundle consists of: itself, or all that lie below it.
    private func files(of part: String) -> [String] {
        var isFolder: ObjCBool = false
        let place = folder.appendingPathComponent(part).path
        guard FileManager.default.fileExists(atPath: place, isDirectory: &isFolder) else { return [] }
        guard isFolder.boolValue else { return [part] }
        return (FileManager.default.subpaths(atPath: place) ?? []).map { "\(part)/\($0)" }.filter { path in
            FileManager.default.fileExists(atPath: folder.appendingPathComponent(path).path, isDirectory: &isFolder)
                && !isFolder.boolValue
        }
    }

    private func digest(of path: String) throws -> String {
        let content = try Data(contentsOf: folder.appendingPathComponent(path), options: .mappedIfSafe)
        return SHA256.hash(data: content).map { String(format: "%02x", $0) }.joined()
    }
}

extension Manifest.Build {
    /// Whether Core ML or Core AI loads it.
    fileprivate var isForApple: Bool {
        ["mlpackage", "aimodel"].contains((model.main as NSString).pathExtension)
    }
}
