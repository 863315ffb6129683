# frozen_string_literal: true

require "rbs"
require "yard"
require_relative "../spec_helper"

# What every public method has beside its specs: a signature and documentation.
RSpec.describe "the public API" do
  root = File.expand_path("../..", __dir__)

  # Named in spec/ruby-api.md as internal.
  internal = [Prosody::NativeValueState]

  modules = lambda do |parent|
    found = parent.constants.map { |name| parent.const_get(name) }.grep(Module).select { |one| one.name.start_with?("Prosody::") }
    found.flat_map { |one| [one, *modules.call(one)] }
  end
  public_modules = [Prosody, *modules.call(Prosody)].uniq - internal

  # [module, name, whether of the module itself] of all public methods.
  methods = public_modules.flat_map do |one|
    own = one.public_instance_methods(false)
    own << :initialize if one.is_a?(Class) && one.private_method_defined?(:initialize, false)
    own.map { |name| [one, name, false] } + one.public_methods(false).select { |name| one.method(name).owner == one.singleton_class }.map { |name| [one, name, true] }
  end
  shown = ->((one, name, of_itself)) { "#{one}#{of_itself ? "." : "#"}#{name}" }

  # Nil if YARD does not see the method.
  documentation = lambda do |method|
    one, name, of_itself = method
    YARD::Registry.at(shown.call(method)) || (YARD::Registry.at("#{one}##{name}") if of_itself && one.instance_of?(Module))
  end

  it "is what is looked at here" do
    expect(methods.map(&shown)).to include("Prosody.logger", "Prosody.reset_mock", "Prosody::Client#initialize", "Prosody::Client#send_message",
      "Prosody::Context#state", "Prosody::ValueState#set", "Prosody::Message#topic", "Prosody::Configuration#group_id=",
      "Prosody::ErrorClassification#permanent")
  end

  it "is documented, unless it is marked as private" do
    YARD::Logger.instance.level = YARD::Logger::ERROR
    YARD::Registry.clear
    YARD.parse(File.join(root, "lib/**/*.rb"))
    undocumented = methods.reject do |method|
      object = documentation.call(method)
      next false unless object

      is_private = object.visibility == :private || object.tag(:api)&.text == "private"
      is_private || !(object.docstring.all.strip.empty? || object.docstring.match?(/\A(Returns the value of|Sets the) attribute/))
    end

    expect(undocumented.map(&shown)).to be_empty
  end

  it "has a signature, and the signatures are valid" do
    loader = RBS::EnvironmentLoader.new
    %w[json logger pathname].each { |library| loader.add(library: library) }
    loader.add(path: Pathname(File.join(root, "sig")))
    environment = RBS::Environment.from_loader(loader).resolve_type_names
    builder = RBS::DefinitionBuilder.new(env: environment)
    without = methods.reject do |one, name, of_itself|
      type = RBS::TypeName.parse("::#{one.name}")
      next false unless environment.module_decl?(type) || environment.class_decl?(type)

      definition = of_itself ? builder.build_singleton(type) : builder.build_instance(type)
      definition.methods[name]&.defs&.any? { |one_def| one_def.implemented_in.to_s.start_with?("::Prosody") }
    end

    expect(without.map(&shown)).to be_empty
  end
end
