# frozen_string_literal: true

# scenario: every ruby

# Cases 28 and 29: TLS is built in, brokers' certificates are checked against the system's, and both documented
# overrides hold. The other side speaks TLS only, which is enough to see how the handshake ends.
require "openssl"
require "socket"
require "tempfile"
require_relative "../support/scenario"

key = OpenSSL::PKey::RSA.new(2048)
name = OpenSSL::X509::Name.parse("/CN=127.0.0.1")
certificate = OpenSSL::X509::Certificate.new
certificate.version = 2
certificate.serial = 1
certificate.subject = certificate.issuer = name
certificate.public_key = key.public_key
certificate.not_before = Time.now - 3600
certificate.not_after = Time.now + 3600
extensions = OpenSSL::X509::ExtensionFactory.new(certificate, certificate)
certificate.add_extension(extensions.create_extension("basicConstraints", "CA:TRUE", true))
certificate.add_extension(extensions.create_extension("subjectAltName", "IP:127.0.0.1"))
certificate.sign(key, OpenSSL::Digest.new("SHA256"))
file = Tempfile.new("certificate").tap { |open| open.write(certificate.to_pem) && open.flush }

context = OpenSSL::SSL::SSLContext.new
context.cert = certificate
context.key = key
# A server's address, and what clients have said to it after their handshake.
server = lambda do
  listener = TCPServer.new("127.0.0.1", 0)
  heard = Thread::Queue.new
  Thread.new do
    loop do
      socket = listener.accept
      Thread.new do
        tls = OpenSSL::SSL::SSLSocket.new(socket, context)
        tls.accept
        heard << tls.read(4)
      rescue OpenSSL::SSL::SSLError, SystemCallError
        nil
      end
    end
  end
  ["127.0.0.1:#{listener.addr[1]}", heard]
end

# Sends to such a server, which fails in any case.
send = <<~RUBY
  lambda do |address, config|
    Prosody::Client.new(bootstrap_servers: address, source_system: "scenario", send_timeout: 1.5,
      kafka_config: {"security.protocol" => "ssl", **config}).send_message("topic", "key", 1)
  rescue Prosody::Error => error
    error.message
  end
RUBY
reason = eval(send) # rubocop:disable Security/Eval

address, heard = server.call
refused = reason.call(address, {})
check("an unknown certificate is refused, and the error says so: #{refused}") { refused.include?("certificate verify failed") }
check("nothing was said to it") { heard.empty? }

address, heard = server.call
reason.call(address, {"ssl.ca.location" => file.path})
check("ssl.ca.location names another authority") { pop(heard) }

address, heard = server.call
library = File.expand_path("../../lib", __dir__)
system({"SSL_CERT_FILE" => file.path}, RbConfig.ruby, "-I#{library}", "-rprosody", "-e", "#{send}.call(ARGV.first, {})", address)
check("the system's store is looked up, which SSL_CERT_FILE stands in for") { pop(heard) }
