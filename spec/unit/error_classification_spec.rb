# frozen_string_literal: true

require_relative "../unit_helper"

RSpec.describe Prosody::ErrorClassification do
  # A handler that raises what it is given as message.
  def handler_class(parent = Prosody::EventHandler, &body)
    Class.new(parent) do
      class_eval(&body) if body
    end
  end

  def raising_class(parent = Prosody::EventHandler, &body)
    handler_class(parent) do
      class_eval(&body) if body
      define_method(:on_message) { |_context, error| raise error }
    end
  end

  def outcome(handler, error, method = :on_message)
    handler.send(method, nil, error)
  rescue Exception => raised # standard:disable Lint/RescueException
    raised
  end

  describe "what it makes of an error" do
    let(:handler) do
      raising_class do
        permanent :on_message, TypeError, KeyError
        transient :on_message, IOError
      end.new
    end

    it "raises a PermanentError for permanent classes" do
      expect(outcome(handler, TypeError.new("one"))).to be_an_instance_of(Prosody::PermanentError)
      expect(outcome(handler, KeyError.new("two"))).to be_an_instance_of(Prosody::PermanentError)
    end

    it "raises a TransientError for transient classes, and what inherits from them" do
      expect(outcome(handler, IOError.new("x"))).to be_an_instance_of(Prosody::TransientError)
      expect(outcome(handler, EOFError.new("x"))).to be_an_instance_of(Prosody::TransientError)
    end

    it "keeps message, backtrace and original" do
      original = TypeError.new("the very message")
      raised = outcome(handler, original)

      expect(raised.message).to eq("the very message")
      expect(raised.cause).to be(original)
      expect(raised.backtrace).to eq(original.backtrace)
    end

    it "leaves everything else as it was raised" do
      original = ArgumentError.new("other")
      raised = outcome(handler, original)

      expect(raised).to be(original)
      expect(raised.backtrace.first).to include(File.basename(__FILE__))
    end

    it "leaves throw alone" do
      thrower = handler_class do
        permanent :on_message, Exception
        def on_message(_context, tag)
          throw tag, :caught
        end
      end.new

      expect(catch(:tag) { thrower.on_message(nil, :tag) }).to eq(:caught)
    end

    it "does not care what the handler itself calls raise, fail, class or cause" do
      handler = handler_class do
        permanent :on_message, KeyError
        %i[raise fail class is_a?].each { |name| define_method(name) { |*| :mine } }
        def on_message(_context, hash)
          hash.fetch(:absent)
        end
      end.new

      expect(outcome(handler, {})).to be_an_instance_of(Prosody::PermanentError)
    end

    it "knows error classes outside StandardError" do
      handler = raising_class { permanent :on_message, NotImplementedError }.new

      expect(outcome(handler, NotImplementedError.new("x"))).to be_an_instance_of(Prosody::PermanentError)
    end

    it "leaves alone what ends the process or cancels the task, whatever is listed" do
      stop = Class.new(Exception) # standard:disable Lint/InheritException
      stub_const("Async::Stop", stop)
      handler = raising_class { transient :on_message, Exception }.new
      errors = [SystemExit.new, Interrupt.new, SignalException.new("TERM"), stop.new, Class.new(stop).new]

      expect(errors.map { |error| outcome(handler, error) }).to eq(errors)
    end
  end

  describe "errors that are classified already" do
    let(:handler) { raising_class { permanent :on_message, StandardError }.new }

    it "lets them through untouched" do
      error = Prosody::TransientError.new("by hand")

      expect(outcome(handler, error)).to be(error)
    end

    it "classifies them where they are listed by name" do
      handler = raising_class { permanent :on_message, Prosody::NullValueError }.new
      error = Prosody::NullValueError.new("nil")

      expect(outcome(handler, error)).to be_an_instance_of(Prosody::PermanentError)
      expect(outcome(handler, error).cause).to be(error)
    end

    it "lets them through if they are what they would become" do
      handler = raising_class { permanent :on_message, Prosody::PermanentError }.new
      error = Prosody::PermanentStateError.new("x")

      expect(outcome(handler, error)).to be(error)
    end
  end

  describe "where it stands" do
    it "may stand before or after the definition" do
      after = raising_class
      after.permanent :on_message, KeyError
      before = raising_class { permanent :on_message, KeyError }

      [before, after].each { |type| expect(outcome(type.new, KeyError.new)).to be_a(Prosody::PermanentError) }
    end

    it "may stand several times, on both sides" do
      type = raising_class { permanent :on_message, KeyError }
      type.transient :on_message, IOError
      type.permanent :on_message, TypeError

      expect([KeyError, IOError, TypeError].map { |error| outcome(type.new, error.new).class })
        .to eq([Prosody::PermanentError, Prosody::TransientError, Prosody::PermanentError])
    end

    it "holds for a method that is defined again, without a warning" do
      verbose, $VERBOSE = $VERBOSE, true
      expect {
        type = raising_class { permanent :on_message, KeyError }
        type.class_eval do
          def on_message(_context, _error)
            raise KeyError, "second"
          end
        end

        expect(outcome(type.new, nil)).to have_attributes(class: Prosody::PermanentError, message: "second")
      }.not_to output.to_stderr
    ensure
      $VERBOSE = verbose
    end

    it "holds for define_method and alias_method" do
      type = handler_class do
        permanent :on_message, KeyError
        permanent :on_timer, KeyError
        define_method(:on_message) { |_context, error| raise error }
        alias_method :on_timer, :on_message
      end

      expect(outcome(type.new, KeyError.new)).to be_a(Prosody::PermanentError)
      expect(outcome(type.new, KeyError.new, :on_timer)).to be_a(Prosody::PermanentError)
    end

    it "holds for a method of an included module, in either order" do
      mixin = Module.new do
        def on_message(_context, error)
          raise error
        end
      end
      before = handler_class {
        permanent :on_message, KeyError
        include mixin
      }
      after = handler_class {
        include mixin

        permanent :on_message, KeyError
      }
      below = handler_class(raising_class { permanent :on_message, KeyError }) { include mixin }

      [before, after, below].each { |type| expect(outcome(type.new, KeyError.new)).to be_a(Prosody::PermanentError) }
    end

    it "serves any class that extends it" do
      type = Class.new { extend Prosody::ErrorClassification }
      type.permanent "on_message", KeyError
      type.class_eval do
        def on_message(_context, error)
          raise error
        end
      end

      expect(outcome(type.new, KeyError.new)).to be_a(Prosody::PermanentError)
    end

    it "calls a method_added and an include that the class had before" do
      added = []
      type = Class.new do
        define_singleton_method(:method_added) { |name|
          added << name
          super(name)
        }
        extend Prosody::ErrorClassification

        permanent :on_message, KeyError
        def on_message(_context, error)
          raise error
        end
      end

      expect(added).to include(:on_message)
      expect(outcome(type.new, KeyError.new)).to be_a(Prosody::PermanentError)
    end
  end

  describe "inheritance" do
    let(:parent) { raising_class { permanent :on_message, KeyError } }

    it "holds for subclasses" do
      expect(outcome(handler_class(parent).new, KeyError.new)).to be_a(Prosody::PermanentError)
    end

    it "holds for a subclass's own method" do
      expect(outcome(raising_class(parent).new, KeyError.new)).to be_a(Prosody::PermanentError)
    end

    it "holds for a subclass that was there before the declaration" do
      child = raising_class(parent)
      parent.transient :on_message, IOError
      late = raising_class
      grandchild = raising_class(handler_class(late))
      late.permanent :on_message, KeyError

      expect(outcome(child.new, IOError.new)).to be_a(Prosody::TransientError)
      expect(outcome(grandchild.new, KeyError.new)).to be_a(Prosody::PermanentError)
    end

    it "classifies once when the subclass calls super" do
      child = handler_class(parent) do
        def on_message(context, error)
          super
        end
      end
      original = KeyError.new("x")

      expect(outcome(child.new, original)).to have_attributes(class: Prosody::PermanentError, cause: original)
    end

    it "adds the subclass's declarations, for the inherited method too, without changing the parent" do
      child = handler_class(parent) { transient :on_message, IOError }

      expect(outcome(child.new, IOError.new)).to be_a(Prosody::TransientError)
      expect(outcome(child.new, KeyError.new)).to be_a(Prosody::PermanentError)
      expect(outcome(parent.new, IOError.new)).to be_an_instance_of(IOError)
    end

    it "lets the most derived declaration win, through super as well" do
      bare = handler_class(parent) { transient :on_message, KeyError }
      calling = handler_class(parent) do
        transient :on_message, KeyError
        def on_message(context, error)
          super
        end
      end

      expect(outcome(bare.new, KeyError.new)).to be_a(Prosody::TransientError)
      expect(outcome(calling.new, KeyError.new)).to be_a(Prosody::TransientError)
      expect(outcome(parent.new, KeyError.new)).to be_a(Prosody::PermanentError)
    end

    it "leaves what only the subclass lists to the subclass's own rescue" do
      child = handler_class(parent) do
        permanent :on_message, IOError
        def on_message(context, error)
          super
        rescue IOError
          :rescued
        end
      end

      expect(outcome(child.new, IOError.new)).to eq(:rescued)
    end

    it "lets the last declaration of a class win" do
      type = raising_class do
        permanent :on_message, StandardError
        transient :on_message, IOError
      end

      expect(outcome(type.new, IOError.new)).to be_a(Prosody::TransientError)
      expect(outcome(type.new, KeyError.new)).to be_a(Prosody::PermanentError)
    end
  end

  describe "the wrapped method" do
    it "gets arguments, keywords and block, and its answer is handed on" do
      type = handler_class do
        permanent :gather, KeyError
        def gather(first, *rest, key: 1, **others, &block)
          [first, rest, key, others, block&.call]
        end
      end

      expect(type.new.gather(1, 2, key: 3, other: 4) { 5 }).to eq([1, [2], 3, {other: 4}, 5])
      expect(type.new.gather({a: 1})).to eq([{a: 1}, [], 1, {}, nil])
    end

    it "gets the block of an on_message" do
      type = handler_class do
        permanent :on_message, KeyError
        def on_message(context, message)
          yield context, message
        end
      end

      expect(type.new.on_message(1, 2) { |*given| given }).to eq([1, 2])
      expect(type.instance_method(:on_message).arity).to eq(2)
    end

    it "keeps its visibility, given in any of the usual ways" do
      type = handler_class do
        permanent :before, KeyError
        permanent :inline, KeyError
        permanent :afterwards, KeyError
        permanent :shared, KeyError
        def afterwards = raise(KeyError)

        private :afterwards
        private def inline = raise(KeyError)
        protected def shared = raise(KeyError)

        private

        def before = raise(KeyError)
        def later = raise(KeyError)
      end
      type.permanent :later, KeyError

      expect(%i[before inline afterwards later].map { |name| type.private_method_defined?(name) }).to all(be(true))
      expect(type.protected_method_defined?(:shared)).to be(true)
      %i[before inline afterwards later shared].each do |name|
        expect { type.new.send(name) }.to raise_error(Prosody::PermanentError)
      end
    end

    it "keeps the visibility of an inherited method" do
      parent = handler_class { private def step = raise(KeyError) }
      child = handler_class(parent) { permanent :step, KeyError }

      expect(child.private_method_defined?(:step)).to be(true)
      expect { child.new.send(:step) }.to raise_error(Prosody::PermanentError)
    end

    it "costs next to nothing while nothing is raised" do
      handler = handler_class do
        permanent :on_message, KeyError
        def on_message(_context, _message)
        end
      end.new
      handler.on_message(nil, nil)
      before = GC.stat(:total_allocated_objects)
      1_000.times { handler.on_message(nil, nil) }
      allocated = GC.stat(:total_allocated_objects) - before

      # Ruby 3.1 and 3.2 allocate one object to bind a method that was replaced.
      expect(allocated).to be < 1_100
    end
  end

  describe "mistakes" do
    let(:type) { handler_class }

    it "wants a class" do
      expect { type.permanent(:on_message) }.to raise_error(ArgumentError, /permanent :on_message: no exception class given/)
      expect { type.transient(:on_message) }.to raise_error(ArgumentError, /transient :on_message: no exception class given/)
    end

    it "wants exception classes" do
      ["KeyError", KeyError.new, String, Comparable, nil].each do |wrong|
        expect { type.permanent(:on_message, IOError, wrong) }
          .to raise_error(ArgumentError, /got #{Regexp.escape(wrong.inspect)}, expected classes that inherit from Exception/)
      end
    end

    it "wants a method name" do
      expect { type.permanent(KeyError, IOError) }.to raise_error(ArgumentError, /got KeyError, expected a method name/)
    end
  end

  describe ".undefined_methods" do
    it "names what is classified and never defined" do
      type = handler_class do
        permanent :on_mesage, KeyError
        transient :on_timr, KeyError
        permanent :on_message, KeyError
        permanent :helper, KeyError

        private

        def helper
        end
      end

      expect(described_class.undefined_methods(type.new)).to eq(%i[on_mesage on_timr])
      expect(described_class.undefined_methods(handler_class(type).new)).to eq(%i[on_mesage on_timr])
    end

    it "is empty for a handler without classification" do
      expect(described_class.undefined_methods(Object.new)).to eq([])
    end

    it "does not take a declaration for a definition" do
      type = handler_class { permanent :on_message, KeyError }

      expect(type.instance_method(:on_message).owner).to be(Prosody::EventHandler)
    end
  end
end
