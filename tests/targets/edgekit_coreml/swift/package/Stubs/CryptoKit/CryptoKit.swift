// As much of CryptoKit's interface as EdgeKit's Swift sources use. `sha256sum` computes.

import Foundation

public struct SHA256Digest: Sequence {
    let bytes: [UInt8]

    public func makeIterator() -> IndexingIterator<[UInt8]> { bytes.makeIterator() }
}

public enum SHA256 {
    public static func hash(data: Data) -> SHA256Digest {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try! data.write(to: file)
        defer { try! FileManager.default.removeItem(at: file) }
        let program = Process()
        let answer = Pipe()
        program.executableURL = URL(fileURLWithPath: "/usr/bin/sha256sum")
        program.arguments = [file.path]
        program.standardOutput = answer
        try! program.run()
        program.waitUntilExit()
        let digits = Array(answer.fileHandleForReading.readDataToEndOfFile().prefix(64))
        let places = stride(from: 0, to: digits.count, by: 2)
        return SHA256Digest(bytes: places.map { UInt8(String(decoding: digits[$0..<$0 + 2], as: UTF8.self), radix: 16)! })
    }
}
