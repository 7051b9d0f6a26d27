// What OpenSession.swift uses of ONNX Runtime's Objective-C headers, as Swift imports them:
// ort_env.h, ort_session.h and ort_coreml_execution_provider.h.

public class ORTEnv {}

public class ORTSessionOptions {
    public init() throws {}
    public func setIntraOpNumThreads(_ count: Int32) throws {}
    public func addConfigEntry(withKey key: String, value: String) throws {}
    public func appendCoreMLExecutionProvider(withOptionsV2 options: [AnyHashable: Any]) throws {}
}

public class ORTSession {
    public init(env: ORTEnv, modelPath: String, sessionOptions: ORTSessionOptions?) throws {}
}
