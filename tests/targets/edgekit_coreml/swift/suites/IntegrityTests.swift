import Foundation
import XCTest
import EdgeKitBundle

final class IntegrityTests: XCTestCase {
    func testWritesWhatIsWrongWithEachCopy() throws {
        let folder = URL(fileURLWithPath: try XCTUnwrap(ProcessInfo.processInfo.environment["COPIES"]))
        var found: [String: [String: String]] = [:]
        for copy in try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil) {
            let digest = try? String(contentsOf: copy.appendingPathComponent("digest.txt"), encoding: .utf8)
            do {
                try ModelBundle(folder: copy).checkIntegrity(manifestDigest: digest)
                found[copy.lastPathComponent] = [:]
            } catch let error as IntegrityError {
                found[copy.lastPathComponent] = error.flaws.mapValues(\.rawValue)
            }
        }
        try JSONSerialization.data(withJSONObject: found).write(to: folder.appendingPathExtension("json"))
    }
}
